// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

const runUsage = `usage: nomad-driver-horovod run [flags] -- <command> [arguments]

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

// localOptions are the flags of run.
type localOptions struct {
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

func parseLocal(args []string, stderr io.Writer) (*localOptions, error) {
	o := &localOptions{}
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { _, _ = fmt.Fprint(stderr, runUsage); f.PrintDefaults() }
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
	f.DurationVar(&o.stall, "stall-timeout", 0, "form the ring again without processes that hang when no step is made for this long; 0: only tell")
	f.StringVar(&o.onRingLost, "on-ring-lost", "fail", "fail or restart: what to do when no process holds the training state any more")
	f.BoolVar(&o.verbose, "verbose", false, "log more")
	f.BoolVar(&o.ignoredGloo, "gloo", true, "accepted: Gloo is the only controller")
	f.Var(&o.ignoredCooldown, coolDownFlag, "accepted and ignored: failing slots are restarted with growing pauses, hosts are not blacklisted")
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

func (o *localOptions) check() error {
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
	if o.script != "" {
		if err := lookCommand(firstWord(o.script), ""); err != nil {
			return fmt.Errorf("--host-discovery-script: %w", err)
		}
	} else {
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
		names, _ := InterfaceNames() // none, where they can't be listed
		return fmt.Errorf("--network-interface %q: %w; this machine has %s", o.iface, err, strings.Join(names, ", "))
	}
	return lookCommand(o.command[0], "")
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return s
}

// InterfaceNames lists this machine's network interfaces.
func InterfaceNames() ([]string, error) {
	all, err := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

type localHost struct {
	name  string
	slots int
}

// fixedHosts reads what -H says.
func (o *localOptions) fixedHosts() ([]localHost, error) {
	return parseHosts(strings.ReplaceAll(o.hosts, ",", "\n"), o.slots, true)
}

// parseHosts reads "name" or "name:slots" lines. Where a host may be named
// twice, the last line counts, as with horovodrun.
func parseHosts(text string, slots int, once bool) ([]localHost, error) {
	var hosts []localHost
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, n, ok := strings.Cut(line, ":")
		h := localHost{name: name, slots: slots}
		if ok {
			v, err := strconv.Atoi(n)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("line %d: %q: slots must be a number", i+1, line)
			}
			h.slots = v
		}
		if name == "" || strings.ContainsAny(name, "/#?% \t") {
			return nil, fmt.Errorf("line %d: %q is no host name", i+1, line)
		}
		at := slices.IndexFunc(hosts, func(o localHost) bool { return o.name == name })
		switch {
		case at < 0:
			hosts = append(hosts, h)
		case once:
			return nil, fmt.Errorf("line %d: host %q is named twice; write %s:<slots> once", i+1, name, name)
		default:
			hosts[at] = h
		}
	}
	return slices.DeleteFunc(hosts, func(h localHost) bool { return h.slots == 0 }), nil
}

// RunMain is the `run` subcommand. It returns the exit code.
func RunMain(ctx context.Context, args []string) int {
	o, err := parseLocal(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "nomad-driver-horovod run: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	outliveReaders()
	r := newLocal(o)
	result := r.run(ctx)
	if result.Code != 0 {
		fmt.Fprintf(os.Stderr, "nomad-driver-horovod run: %s\n", result.Reason)
	}
	return result.Code
}

// local runs all hosts of a job, and their leader, in this process.
type local struct {
	o      *localOptions
	config Config
	log    hclog.Logger
	leader *Leader
	out    io.Writer
	err    io.Writer

	mu      sync.Mutex
	hosts   map[string]*localRun
	listed  map[string]localHost // as last discovered
	lives   map[string]int       // how often a host has joined
	joined  int
	over    bool // there is a result
	wg      sync.WaitGroup
	results chan Result
}

type localRun struct {
	host    *Host
	id      elastic.HostID
	slots   int
	leaving bool
}

func newLocal(o *localOptions) *local {
	level := hclog.Warn
	if o.verbose {
		level = hclog.Debug
	}
	out := &lockedWriter{w: os.Stdout}
	r := &local{o: o, hosts: map[string]*localRun{}, lives: map[string]int{}, results: make(chan Result, 16),
		out: out, err: &lockedWriter{w: os.Stderr},
		log: hclog.New(&hclog.LoggerOptions{Name: "kolo", Level: level, Output: os.Stderr})}
	r.config = Config{Command: o.command[0], Args: o.command[1:], NP: o.np, MinNP: o.minNP, MaxNP: o.maxNP,
		ElasticTimeout: Duration(time.Duration(o.elasticTimeout) * time.Second), Settle: Duration(o.settle),
		GlooTimeout: Duration(time.Duration(o.glooTimeout) * time.Second), ResetLimit: o.resetLimit, StallTimeout: Duration(o.stall),
		SlotRestarts: o.slotRestarts, OnRingLost: o.onRingLost, JobID: filepath.Base(o.command[0]), LogDir: o.output}
	r.leader = NewLeader(LeaderOptions{Config: r.config, Term: 1, Logger: r.log})
	return r
}

func (r *local) run(ctx context.Context) Result {
	dir, err := os.MkdirTemp("", "kolo-run-")
	if err != nil {
		return Result{Code: 1, Reason: err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r.config.ProgressDir = dir
	if r.o.output != "" {
		if err := os.MkdirAll(r.o.output, 0o755); err != nil {
			return Result{Code: 1, Reason: fmt.Sprintf("--output-filename: %v", err)}
		}
	}
	leaderCtx, stopLeader := context.WithCancel(context.WithoutCancel(ctx))
	leaderDone := make(chan struct{})
	go func() {
		_ = r.leader.Run(leaderCtx)
		close(leaderDone)
	}()
	defer func() {
		stopLeader()
		<-leaderDone
	}()
	if r.o.status != "" {
		stop, err := r.serveStatus(ctx)
		if err != nil {
			return Result{Code: 1, Reason: fmt.Sprintf("--status-address: %v", err)}
		}
		defer stop()
	}

	hostCtx, stopHosts := context.WithCancel(ctx)
	discovered := make(chan []localHost)
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		r.discover(hostCtx, discovered)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var result Result
	empty := time.Now() // since when there is no host
	for done := false; !done; {
		select {
		case now := <-tick.C:
			// Results come from hosts: where there is none, nobody else ends this.
			if r.running() > 0 {
				empty = now
			} else if timeout := time.Duration(r.config.ElasticTimeout); now.Sub(empty) > timeout {
				result, done = Result{Code: 1, Reason: fmt.Sprintf("waited %s for a host, there is none (--elastic-timeout)", timeout)}, true
			}
		case hosts := <-discovered:
			r.follow(hostCtx, hosts)
		case result = <-r.results:
			done = true
		case <-ctx.Done():
			result, done = Result{Code: 130, Reason: "interrupted"}, true
		}
	}
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	// The others are ending by themselves; whoever is not in time is stopped.
	ended := make(chan struct{})
	timer := time.AfterFunc(20*time.Second, stopHosts)
	if ctx.Err() != nil {
		stopHosts()
	}
	go func() {
		r.wait()
		close(ended)
	}()
	<-ended
	timer.Stop()
	stopHosts()
	r.wg.Wait()
	return result
}

// wait waits for all hosts to end.
func (r *local) wait() {
	for {
		if r.running() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running is how many hosts there are.
func (r *local) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hosts)
}

// discover sends the hosts whenever they change. A script that fails keeps the
// hosts as they are.
func (r *local) discover(ctx context.Context, out chan<- []localHost) {
	var last []localHost
	send := func(hosts []localHost) {
		if last != nil && slices.Equal(hosts, last) {
			return
		}
		select {
		case out <- hosts:
			last = hosts
		case <-ctx.Done():
		}
	}
	if r.o.script == "" {
		hosts, _ := r.o.fixedHosts()
		send(hosts)
		return
	}
	t := time.NewTicker(r.o.interval)
	defer t.Stop()
	for {
		runCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
		text, err := exec.CommandContext(runCtx, "sh", "-c", r.o.script).Output()
		cancel()
		var hosts []localHost
		if err == nil {
			hosts, err = parseHosts(string(text), r.o.slots, false)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("discovery script failed, hosts stay as they are", "script", r.o.script, "error", err)
		default:
			send(hosts)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow starts hosts that are new, changes the slots of others, and lets go
// those that are not listed any more.
func (r *local) follow(ctx context.Context, hosts []localHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = map[string]localHost{}
	for _, h := range hosts {
		r.listed[h.name] = h
		switch run := r.hosts[h.name]; {
		case run == nil:
			r.start(ctx, h)
		case run.slots != h.slots && !run.leaving:
			run.slots = h.slots
			n := h.slots
			run.host.Resize(n)
			r.leader.post(func() { r.leader.step(r.leader.ctx, elastic.HostSlots{Host: run.id, Slots: n}) })
		}
	}
	for name, run := range r.hosts {
		if _, listed := r.listed[name]; !listed && !run.leaving {
			run.leaving = true
			run.host.Leave(30 * time.Second)
		}
	}
}

// start runs a host; r.mu is held. One that comes back is another to the
// leader.
func (r *local) start(ctx context.Context, h localHost) {
	r.joined++
	r.lives[h.name]++
	c := r.config
	c.Slots, c.Index, c.AllocID = h.slots, r.joined, h.name
	if n := r.lives[h.name]; n > 1 {
		c.AllocID = fmt.Sprintf("%s.%d", h.name, n)
	}
	c.ProgressDir = filepath.Join(c.ProgressDir, c.AllocID)
	if c.LogDir != "" {
		c.LogDir = filepath.Join(c.LogDir, h.name)
	}
	_ = os.MkdirAll(c.ProgressDir, 0o755)
	st, _ := newStories("", r.log)
	id := elastic.HostID(c.AllocID)
	run := &localRun{id: id, slots: h.slots, host: NewHost(HostOptions{Config: c, ID: id, Interface: r.o.iface,
		Prefix: h.name + ":", Stdout: r.out, Stderr: r.err, Stories: st, Logger: r.log.Named(h.name)})}
	r.hosts[h.name] = run
	up, dn := newPipes()
	r.wg.Add(3)
	go func() { defer r.wg.Done(); _ = r.leader.Serve(dn) }()
	go func() { defer r.wg.Done(); _ = run.host.Attach(up) }()
	go func() {
		defer r.wg.Done()
		result := run.host.Run(ctx)
		up.close()
		r.mu.Lock()
		delete(r.hosts, h.name)
		none := len(r.hosts) == 0
		leaving := run.leaving
		if again, listed := r.listed[h.name]; listed && leaving && !r.over {
			r.start(ctx, again) // it was listed again before it had left
		}
		r.mu.Unlock()
		// A host that was let go says nothing about the job; the last one that
		// was given up does.
		if !leaving && (none || run.host.ended()) {
			select {
			case r.results <- result:
			default:
			}
		}
	}()
}

func (r *local) serveStatus(ctx context.Context) (func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", r.o.status)
	if err != nil {
		return nil, err
	}
	server := newWeb(func(ctx context.Context) *Status {
		c := make(chan *Status, 1)
		r.leader.post(func() { r.leader.publish(); c <- r.leader.status })
		select {
		case s := <-c:
			return s
		case <-ctx.Done():
			return nil
		}
	})
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}

// lockedWriter keeps lines of several processes apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
