// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/statusapi"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Main runs the `run` subcommand and returns the exit code.
func Main(ctx context.Context, f Framework, args []string) int {
	o, err := parseFlags(f, args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s run: %v\n", f.Program, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	process.IgnoreSIGPIPE()
	r := newLauncher(f.Framework, o)
	result := r.run(ctx)
	if result.Code != 0 {
		fmt.Fprintf(os.Stderr, "%s run: %s\n", f.Program, result.Reason)
	}
	return result.Code
}

// endTimeout is how long hosts may take to end by themselves once there is a
// result.
const endTimeout = 20 * time.Second

// launcher runs all hosts of a job, and their leader, in this process.
type launcher struct {
	o      *flags
	config config.Config
	log    hclog.Logger
	leader *leader.Leader
	out    io.Writer
	err    io.Writer
	// framework returns the framework's part for one host.
	framework func(elastic.HostID) host.Framework

	mu     sync.Mutex
	hosts  map[elastic.HostID]*runningHost
	listed map[string]listedHost // as discovered last
	lives  map[string]int        // how often a host has joined
	joined int
	// restarts means that for each ring, new processes replace those that train.
	restarts bool
	wg       sync.WaitGroup
	results  chan host.Result
}

func newLauncher(f framework.Framework, o *flags) *launcher {
	level := hclog.Warn
	if o.verbose {
		level = hclog.Debug
	}
	out := process.NewSharedWriter(os.Stdout)
	r := &launcher{o: o, restarts: o.restart.Mode == settings.ModeRestart, hosts: map[elastic.HostID]*runningHost{}, lives: map[string]int{}, results: make(chan host.Result, 16),
		out: out, err: process.NewSharedWriter(os.Stderr),
		log: hclog.New(&hclog.LoggerOptions{Name: "kolo", Level: level, Output: os.Stderr, IndependentLevels: true})}
	r.config = config.Config{Command: o.command[0], Args: o.command[1:], Training: o.Training, Restart: o.restart, RunEnv: o.env,
		JobID: filepath.Base(o.command[0]), LogDir: o.output}
	r.framework = func(id elastic.HostID) host.Framework {
		return f.Host(framework.Options{Host: id, Job: r.config.JobID, Mode: o.restart.Mode, Replica: o.Replica, Interface: o.iface, Logger: r.log.Named(string(id))})
	}
	r.leader = leader.New(leader.Options{Config: r.config, Term: 1, Framework: f.Elastic, Exchange: f.Exchange, Logger: r.log})
	return r
}

func (r *launcher) run(ctx context.Context) host.Result {
	dir, err := os.MkdirTemp("", "kolo-run-")
	if err != nil {
		return host.Result{Code: 1, Reason: err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r.config.ProgressDir = dir
	if r.o.output != "" {
		if err := os.MkdirAll(r.o.output, 0o755); err != nil {
			return host.Result{Code: 1, Reason: fmt.Sprintf("--output-filename: %v", err)}
		}
	}
	leaderCtx, stopLeader := context.WithCancel(context.WithoutCancel(ctx))
	var leading sync.WaitGroup
	leading.Go(func() { _ = r.leader.Run(leaderCtx) })
	defer leading.Wait()
	defer stopLeader()
	if r.o.status != "" {
		stop, err := r.serveStatus(ctx)
		if err != nil {
			return host.Result{Code: 1, Reason: fmt.Sprintf("--status-address: %v", err)}
		}
		defer stop()
	}

	hostCtx, stopHosts := context.WithCancel(ctx)
	defer stopHosts()
	discovered := make(chan []listedHost)
	r.wg.Go(func() { r.discover(hostCtx, discovered) })
	result := r.await(ctx, hostCtx, discovered)
	// The other hosts are ending by themselves; those that take too long are
	// stopped.
	timer := time.AfterFunc(endTimeout, stopHosts)
	defer timer.Stop()
	if ctx.Err() != nil {
		stopHosts()
	}
	for r.running() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	stopHosts()
	r.wg.Wait()
	return result
}

// await follows the discovered hosts until there is a result.
func (r *launcher) await(ctx, hostCtx context.Context, discovered <-chan []listedHost) host.Result {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	empty := time.Now() // since when there is no host
	for {
		select {
		case now := <-tick.C:
			// Results come from hosts: without any host, nothing else ends this.
			if r.running() > 0 {
				empty = now
			} else if timeout := time.Duration(r.config.ElasticTimeout); now.Sub(empty) > timeout {
				return host.Result{Code: 1, Reason: fmt.Sprintf("waited %s for a host, there is none (--elastic-timeout)", timeout)}
			}
		case hosts := <-discovered:
			r.follow(hostCtx, hosts)
		case result := <-r.results:
			return result
		case <-ctx.Done():
			return host.Result{Code: 130, Reason: "interrupted"}
		}
	}
}

// running returns the number of hosts.
func (r *launcher) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hosts)
}

func (r *launcher) serveStatus(ctx context.Context) (func(), error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", r.o.status)
	if err != nil {
		return nil, err
	}
	server := statusapi.NewServer(r.leader.Status)
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}
