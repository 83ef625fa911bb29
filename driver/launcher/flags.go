// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/hostnet"
	"github.com/kolo-nomad/kolo/driver/settings"
)

const usage = `usage: nomad-driver-horovod run [flags] -- <command> [arguments]

Trains elastically on this machine, without Nomad. The flags are horovodrun's;
all hosts are this machine.

  nomad-driver-horovod run -np 2 -- python train.py
  nomad-driver-horovod run -np 2 --min-np 1 --max-np 4 \
      --host-discovery-script ./hosts.sh -- python train.py

The discovery script prints one host a line, "name" or "name:slots". It is run
every second, and the job grows and shrinks with what it prints.

Horovod's own settings, for which horovodrun has flags too, are taken from the
environment: HOROVOD_LOG_LEVEL=debug, HOROVOD_FUSION_THRESHOLD=33554432,
HOROVOD_TIMELINE=timeline.json and so on.

flags:
`

// flags are those of `run`.
type flags struct {
	settings.Training
	horovod       settings.Env
	wrong         []error // of the settings
	hosts, script string
	slots         int
	iface         string
	output        string
	status        string
	interval      time.Duration
	verbose       bool
	command       []string
}

// coolDownFlag is horovodrun's flag that has two numbers.
const coolDownFlag = "blacklist-cooldown-range"

// set returns the set of flags that fill in o.
func (o *flags) set(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = fmt.Fprint(stderr, usage); f.PrintDefaults() }
	o.register(f)
	f.IntVar(&o.slots, "slots-per-host", 1, "slots of hosts for which no number is given")
	f.IntVar(&o.slots, "slots", 1, "same as -slots-per-host")
	f.Int("start-timeout", 0, "accepted and ignored: newcomers may take as long as they need")
	for _, n := range []string{"H", "hosts"} {
		f.StringVar(&o.hosts, n, "", "fixed hosts: name:slots,name:slots")
	}
	f.StringVar(&o.script, "host-discovery-script", "", "program that prints the hosts, one a line")
	for _, n := range []string{"network-interface", "network-interfaces"} {
		f.StringVar(&o.iface, n, "lo", "network interface for Gloo")
	}
	f.StringVar(&o.output, "output-filename", "", "directory for one log per slot")
	f.StringVar(&o.status, "status-address", "", "serve /v1/status and /metrics here, such as 127.0.0.1:9400")
	f.DurationVar(&o.interval, "discovery-interval", time.Second, "time between two runs of the discovery script")
	f.BoolVar(&o.verbose, "verbose", false, "log more")
	f.Bool("gloo", true, "accepted: Gloo is the only controller")
	f.Func(coolDownFlag, "accepted and ignored: failing slots are restarted with growing pauses, hosts are not blacklisted",
		func(string) error { return nil })
	return f
}

func parseFlags(args []string, stderr io.Writer) (*flags, error) {
	o := &flags{}
	f := o.set(stderr)
	for {
		if err := f.Parse(args); err != nil {
			return nil, explainFlag(err)
		}
		// Parsing stops at the second value of horovodrun's only flag with two.
		at := len(args) - f.NArg()
		if at < 2 || f.NArg() == 0 || strings.TrimLeft(args[at-2], "-") != coolDownFlag || args[at-1] == "--" {
			break
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
	case o.slots < 1:
		return fmt.Errorf("--slots-per-host %d: must be at least 1", o.slots)
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
	if _, err := net.InterfaceByName(o.iface); err != nil {
		names, _ := hostnet.Interfaces() // none, where they can't be listed
		return fmt.Errorf("--network-interface %q: %w; this machine has %s", o.iface, err, strings.Join(names, ", "))
	}
	return process.LookCommand(o.command[0], "")
}

// checkHosts checks where hosts come from, and takes their slots for -np where it is
// not given.
func (o *flags) checkHosts() error {
	if o.script != "" {
		program := append(strings.Fields(o.script), "")[0]
		if err := process.LookCommand(program, ""); err != nil {
			return fmt.Errorf("--host-discovery-script: %w", err)
		}
		return nil
	}
	if o.hosts == "" {
		o.hosts = fmt.Sprintf("localhost:%d", max(1, o.NP))
	}
	hosts, err := o.fixedHosts()
	if err != nil {
		return fmt.Errorf("-H: %w", err)
	}
	total := 0
	for _, h := range hosts {
		total += h.slots
	}
	if total == 0 {
		return errors.New("-H: the hosts have no slots")
	}
	if o.NP == 0 {
		o.NP = total
	}
	if o.NP > total {
		return fmt.Errorf("-np %d: the hosts have %d slots", o.NP, total)
	}
	return nil
}
