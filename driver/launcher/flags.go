// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/task/commandline"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// flags are the flags of `run`.
type flags struct {
	settings.Training
	dialect       Dialect
	env           settings.Env // for the framework's own settings
	restart       settings.Restart
	wrong         []error // of the settings
	hosts, script string
	slots         int
	nodes         [2]int // fewest and most hosts of torchrun's --nnodes; 0 where not given
	iface         string
	output        string
	status        string
	interval      time.Duration
	verbose       bool
	command       []string
}

// set returns a flag set that fills in o.
func (o *flags) set(program string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		_, _ = fmt.Fprint(stderr, strings.ReplaceAll(o.dialect.usage, "PROGRAM", program))
		printFlags(f)
	}
	o.register(f)
	for _, n := range []string{"H", "hosts"} {
		f.StringVar(&o.hosts, n, "", "fixed hosts: name:slots,name:slots")
	}
	f.StringVar(&o.script, "host-discovery-script", "", "program that prints the hosts, one a line")
	f.StringVar(&o.iface, "network-interface", "lo", "network interface of training traffic")
	f.StringVar(&o.output, "output-filename", "", "directory for one log per slot")
	f.StringVar(&o.status, "status-address", "", "serve /v1/status and /metrics here, such as 127.0.0.1:9400")
	f.BoolVar(&o.verbose, "verbose", false, "log more")
	if o.dialect.extra != nil {
		o.dialect.extra(o, f)
	}
	addAliases(f, o.dialect.launcher)
	return f
}

// printFlags prints the flags except for ignored ones and alternative spellings.
func printFlags(f *flag.FlagSet) {
	shown := flag.NewFlagSet("", flag.ContinueOnError)
	shown.SetOutput(f.Output())
	f.VisitAll(func(fl *flag.Flag) {
		if fl.Usage != ignoredUsage && !strings.Contains(fl.Name, "_") {
			shown.Var(fl.Value, fl.Name, fl.Usage)
			shown.Lookup(fl.Name).DefValue = fl.DefValue
		}
	})
	shown.PrintDefaults()
}

func parseFlags(run Framework, args []string, stderr io.Writer) (*flags, error) {
	o := &flags{dialect: run.Dialect}
	f := o.set(run.Program, stderr)
	for {
		if err := f.Parse(args); err != nil {
			return nil, o.explainFlag(err, f, args)
		}
		// Parsing stops at the second value of horovodrun's only flag with two values.
		at := len(args) - f.NArg()
		if at < 2 || f.NArg() == 0 || strings.TrimLeft(args[at-2], "-") != coolDownFlag || args[at-1] == "--" {
			break
		}
		if err := checkWhole(f.Arg(0)); err != nil {
			return nil, fmt.Errorf("invalid second value %q for flag -%s: %w", f.Arg(0), coolDownFlag, err)
		}
		args = f.Args()[1:]
	}
	o.command = f.Args()
	if len(o.wrong) > 0 {
		return nil, errors.Join(o.wrong...)
	}
	return o, o.check()
}

// check checks the flags, and fills in defaults that depend on others.
func (o *flags) check() error {
	switch {
	case len(o.command) == 0:
		return errors.New("no command given; write it after the flags: run -np 2 -- python train.py")
	case o.hosts != "" && o.script != "":
		return errors.New("-H and --host-discovery-script can't be used together")
	}
	if least, most := o.nodes[0], o.nodes[1]; most > 0 {
		o.MinNP, o.MaxNP = cmp.Or(o.MinNP, least*o.slots), cmp.Or(o.MaxNP, most*o.slots)
		o.NP = cmp.Or(o.NP, o.MinNP)
	}
	if err := o.checkHosts(); err != nil {
		return err
	}
	o.NP = max(o.NP, 1)
	if o.MinNP == 0 {
		o.MinNP = o.NP
	}
	switch {
	case o.MinNP > o.NP:
		return fmt.Errorf("--min-np %d: must not exceed -np %d", o.MinNP, o.NP)
	case o.MaxNP > 0 && o.MaxNP < o.NP:
		return fmt.Errorf("--max-np %d: must not be less than -np %d", o.MaxNP, o.NP)
	}
	if uneven := o.Uneven(); len(uneven) > 0 {
		p := uneven[0]
		return fmt.Errorf("--%s %s: %s; %s", flagOf(strings.TrimPrefix(p.Field, "config.")), p.Value, p.Text, p.Remedy)
	}
	if _, err := net.InterfaceByName(o.iface); err != nil {
		names, _ := hostnet.Interfaces() // none if they can't be listed
		return fmt.Errorf("--network-interface %q: %w; this machine has %s", o.iface, err, strings.Join(names, ", "))
	}
	if err := o.restart.Check().Err(); err != nil {
		return err
	}
	return o.checkCommand()
}

// checkCommand refuses a launcher, which forms groups of its own, and a script without the
// program that runs it.
func (o *flags) checkCommand() error {
	command := o.command[0]
	if _, found := commandline.Launcher(command, o.command[1:]); found {
		return fmt.Errorf("command %q: run takes its place; give the program that trains, such as python train.py", command)
	}
	err := process.LookCommand(command, "")
	if err != nil && strings.HasSuffix(command, ".py") {
		return fmt.Errorf("%w; a script is given with its Python: python %s", err, strings.Join(o.command, " "))
	}
	return err
}

// checkHosts checks the source of the hosts. If -np is not given, it takes their number of
// slots.
func (o *flags) checkHosts() error {
	if o.script != "" {
		program := append(strings.Fields(o.script), "")[0]
		err := process.LookCommand(program, "")
		if err == nil {
			return nil
		}
		if _, here := os.Stat(program); here == nil && !strings.Contains(program, "/") {
			return fmt.Errorf("--host-discovery-script: %w; write ./%s for the file in this directory", err, program)
		}
		return fmt.Errorf("--host-discovery-script: %w", err)
	}
	if o.hosts == "" {
		o.hosts = o.defaultHosts()
	}
	hosts, err := o.fixedHosts()
	if err != nil {
		return fmt.Errorf("-H: %w", err)
	}
	if len(hosts) == 0 {
		return errors.New("-H: the hosts have no slots")
	}
	spares := o.restart.SpareHosts
	if spares >= len(hosts) {
		return fmt.Errorf("--spare-hosts %d: there are %d hosts, of which at least one trains", spares, len(hosts))
	}
	total := 0
	for _, h := range hosts[:len(hosts)-spares] {
		total += h.slots
	}
	if o.NP == 0 {
		o.NP = total
	}
	if o.NP > total {
		return fmt.Errorf("-np %d: the hosts have %d slots%s", o.NP, total, map[bool]string{true: " without --spare-hosts"}[spares > 0])
	}
	return nil
}

// defaultHosts returns this machine under one name, or under as many names as --nnodes asks
// for.
func (o *flags) defaultHosts() string {
	if o.nodes[0] == 0 {
		return fmt.Sprintf("localhost:%d", max(1, cmp.Or(o.NP, o.slots)))
	}
	var hosts []string
	for i := range o.nodes[0] {
		hosts = append(hosts, fmt.Sprintf("node%d:%d", i, o.slots))
	}
	return strings.Join(hosts, ",")
}
