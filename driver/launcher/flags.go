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
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/hostnet"
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

// options are the flags of run.
type options struct {
	np, minNP, maxNP int
	hosts, script    string
	slots            int
	resetLimit       int
	elasticTimeout   int
	glooTimeout      int
	iface            string
	output           string
	status           string
	settle           time.Duration
	stall            time.Duration
	interval         time.Duration
	slotRestarts     int
	onRingLost       string
	verbose          bool
	ignoredCooldown  coolDown
	ignoredGloo      bool
	ignoredStart     int
	command          []string
}

// coolDown takes the first number of horovodrun's flag that has two.
type coolDown struct{}

const coolDownFlag = "blacklist-cooldown-range"

func (coolDown) String() string   { return "" }
func (coolDown) Set(string) error { return nil }

// flags returns the set of flags that fill in o.
func (o *options) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = fmt.Fprint(stderr, usage); f.PrintDefaults() }
	both := func(p *int, names []string, def int, text string) {
		for i, n := range names {
			if i > 0 {
				text = "same as -" + names[0]
			}
			f.IntVar(p, n, def, text)
		}
	}
	both(&o.np, []string{"np", "num-proc"}, 0, "processes to wait for before training starts (default: all slots of -H, else 1)")
	both(&o.minNP, []string{"min-np", "min-num-proc"}, 0, "fewest processes to go on with (default: -np)")
	both(&o.maxNP, []string{"max-np", "max-num-proc"}, 0, "most processes ever used (default: no limit)")
	both(&o.slots, []string{"slots-per-host", "slots"}, 1, "slots of hosts for which no number is given")
	both(&o.resetLimit, []string{"reset-limit"}, 0, "most rings after the first, 0 is no limit")
	both(&o.elasticTimeout, []string{"elastic-timeout"}, 600, "seconds to wait for enough processes")
	both(&o.glooTimeout, []string{"gloo-timeout-seconds"}, 30, "HOROVOD_GLOO_TIMEOUT_SECONDS")
	both(&o.slotRestarts, []string{"slot-restarts"}, 3, "restarts of a failing slot before its host is given up")
	both(&o.ignoredStart, []string{"start-timeout"}, 0, "accepted and ignored: newcomers may take as long as they need")
	for _, n := range []string{"H", "hosts"} {
		f.StringVar(&o.hosts, n, "", "fixed hosts: name:slots,name:slots")
	}
	f.StringVar(&o.script, "host-discovery-script", "", "program that prints the hosts, one a line")
	for _, n := range []string{"network-interface", "network-interfaces"} {
		f.StringVar(&o.iface, n, "lo", "network interface for Gloo")
	}
	f.StringVar(&o.output, "output-filename", "", "directory for one log per slot")
	f.StringVar(&o.status, "status-address", "", "serve /v1/status and /metrics here, such as 127.0.0.1:9400")
	f.DurationVar(&o.settle, "settle", 500*time.Millisecond, "wait for more newcomers before the first are started")
	f.DurationVar(&o.interval, "discovery-interval", time.Second, "time between two runs of the discovery script")
	f.DurationVar(&o.stall, "stall-timeout", 0, "form the ring again without processes that hang when no step is made for this long; 0: only report")
	f.StringVar(&o.onRingLost, "on-ring-lost", "fail", "fail or restart: what to do when no process holds the training state any more")
	f.BoolVar(&o.verbose, "verbose", false, "log more")
	f.BoolVar(&o.ignoredGloo, "gloo", true, "accepted: Gloo is the only controller")
	f.Var(&o.ignoredCooldown, coolDownFlag, "accepted and ignored: failing slots are restarted with growing pauses, hosts are not blacklisted")
	return f
}

func parseFlags(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := o.flags(stderr)
	for {
		if err := f.Parse(args); err != nil {
			if strings.Contains(err.Error(), "not defined") {
				err = fmt.Errorf("%w; Horovod's own settings are given in the environment, such as HOROVOD_LOG_LEVEL", err)
			}
			return nil, err
		}
		// Parsing stops at the second value of horovodrun's only flag with two.
		at := len(args) - f.NArg()
		if at < 2 || f.NArg() == 0 || strings.TrimLeft(args[at-2], "-") != coolDownFlag || args[at-1] == "--" {
			break
		}
		args = f.Args()[1:]
	}
	o.command = f.Args()
	var zero error
	f.Visit(func(given *flag.Flag) {
		if slices.Contains(processes, given.Name) && given.Value.String() == "0" {
			zero = fmt.Errorf("-%s 0: must be at least 1", given.Name)
		}
	})
	return o, cmp.Or(zero, o.check())
}

// processes are the flags that count some; left out they have defaults.
var processes = []string{"np", "num-proc", "min-np", "min-num-proc", "max-np", "max-num-proc"}

// check checks the flags, and fills in defaults that depend on others.
func (o *options) check() error {
	switch {
	case len(o.command) == 0:
		return errors.New("no command given; write it after the flags: run -np 2 -- python train.py")
	case o.hosts != "" && o.script != "":
		return errors.New("-H and --host-discovery-script can't be used together")
	case o.slots < 1:
		return fmt.Errorf("--slots-per-host %d: must be at least 1", o.slots)
	case o.elasticTimeout < 1:
		return fmt.Errorf("--elastic-timeout %d: must be at least 1", o.elasticTimeout)
	case o.np < 0 || o.minNP < 0 || o.maxNP < 0:
		return errors.New("-np, --min-np and --max-np must not be negative")
	case o.onRingLost != "fail" && o.onRingLost != "restart":
		return fmt.Errorf("--on-ring-lost %q: must be fail or restart", o.onRingLost)
	}
	if err := o.checkHosts(); err != nil {
		return err
	}
	o.np = max(o.np, 1)
	if o.minNP == 0 {
		o.minNP = o.np
	}
	switch {
	case o.minNP > o.np:
		return fmt.Errorf("--min-np %d: must not exceed -np %d", o.minNP, o.np)
	case o.maxNP > 0 && o.maxNP < o.np:
		return fmt.Errorf("--max-np %d: must not be less than -np %d", o.maxNP, o.np)
	}
	if _, err := net.InterfaceByName(o.iface); err != nil {
		names, _ := hostnet.Interfaces() // none, where they can't be listed
		return fmt.Errorf("--network-interface %q: %w; this machine has %s", o.iface, err, strings.Join(names, ", "))
	}
	return process.LookCommand(o.command[0], "")
}

// checkHosts checks where hosts come from, and takes their slots for -np where it is
// not given.
func (o *options) checkHosts() error {
	if o.script != "" {
		if err := process.LookCommand(firstWord(o.script), ""); err != nil {
			return fmt.Errorf("--host-discovery-script: %w", err)
		}
		return nil
	}
	if o.hosts == "" {
		o.hosts = fmt.Sprintf("localhost:%d", max(1, o.np))
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
	if o.np == 0 {
		o.np = total
	}
	if o.np > total {
		return fmt.Errorf("-np %d: the hosts have %d slots", o.np, total)
	}
	return nil
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return s
}
