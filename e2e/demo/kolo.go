// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// configuration is the configuration of an agent for jobs that take minutes at
// most: with a shorter hold than the default, and progress every second. The
// workers of a job end on several clients, which report it within some tenths of a
// second. The batch setting handles these together.
const configuration = `
nomad {
  address = %q
}
http {
  unix = %q
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold     = "5s"
  progress = "1s"
  tick     = "2s"
  debounce = "500ms"
}
pool "default" {
  %s
  policy %q {}
  queue "research" {}
  queue "teaching" {}
}
`

// A daemon is a running `kolo agent`. It runs in the cluster's directory, so it
// ends together with the cluster.
type daemon struct {
	binary string
	api    *api.Client
	socket string // for the same user, so commands need no token
	log    string
	done   chan struct{} // closed when the agent has ended
	events chan api.Event
}

// startKolo starts an agent and waits until it leads and sees all slots.
func startKolo(ctx context.Context, c *cluster.Cluster, binary, policy string, gpu bool) (*daemon, error) {
	dir := filepath.Join(c.Dir, "kolo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	pool := `device = "gpu"`
	if !gpu {
		pool = fmt.Sprintf("cpu_slot = %d", slotMHz)
	}
	path := filepath.Join(dir, "agent.hcl")
	socket := filepath.Join(dir, "kolo.sock")
	if err := os.WriteFile(path, fmt.Appendf(nil, configuration, c.Address, socket, pool, policy), 0o600); err != nil {
		return nil, err
	}
	at, err := freeAddress()
	if err != nil {
		return nil, err
	}
	d := &daemon{
		binary: binary, api: api.NewClient("http://" + at), socket: socket, log: filepath.Join(dir, "agent.log"),
		done: make(chan struct{}), events: make(chan api.Event, 64),
	}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, "agent", "-config", path, "-name", "demo", "-http", at) //nolint:noctx // the cluster's reaper ends it
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C should reach only the demo
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("kolo agent: %w", err)
	}
	go func() {
		defer close(d.done)
		_ = cmd.Wait()
	}()
	return d, d.ready(ctx)
}

// ready waits until the agent leads and sees all slots, and starts to read its
// events.
func (d *daemon) ready(ctx context.Context) error {
	wait, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	err := cluster.Until(wait, "kolo agent", func(ctx context.Context) error {
		if err := d.alive(); err != nil {
			return &cluster.FatalError{Reason: err.Error()}
		}
		s, err := d.status(ctx)
		if err != nil {
			return err
		}
		if !s.Leading || len(s.Pools) != 1 || s.Pools[0].Capacity != slots {
			return fmt.Errorf("it leads: %t, it sees %+v, not %d slots", s.Leading, s.Pools, slots)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.listen(ctx)
}

// listen reads the agent's events until the agent or the context ends. It returns
// once the stream has begun.
func (d *daemon) listen(ctx context.Context) error {
	begun := make(chan error, 2) // at the beginning, and at the end
	go func() {
		begun <- d.api.Events(ctx, func() { begun <- nil }, func(e api.Event) {
			select {
			case d.events <- e:
			default: // no one reads
			}
		})
	}()
	return <-begun
}

// alive returns nil while the agent runs, then an error that quotes its log.
func (d *daemon) alive() error {
	select {
	case <-d.done:
		text, _ := os.ReadFile(d.log)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return fmt.Errorf("kolo agent ended: %s", strings.Join(lines[max(0, len(lines)-5):], " | "))
	default:
		return nil
	}
}

// status returns the agent's status.
func (d *daemon) status(ctx context.Context) (*api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.api.Status(ctx)
}

// command runs kolo's command line against the agent and returns its output.
func (d *daemon) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Env = append(os.Environ(), "KOLO_ADDR=unix://"+d.socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kolo %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // does not block
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
