// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin/policypb"
)

// Prefix is how the names of policies' programs begin.
const Prefix = "kolo-policy-"

// Host runs the policies of a directory.
type Host struct {
	dir     string
	timeout time.Duration
	log     hclog.Logger

	mu      sync.Mutex
	running map[string]*Process
}

// NewHost makes a host for the programs of a directory. A policy has so much
// time to start, and again to decide. Close it.
func NewHost(dir string, timeout time.Duration, log hclog.Logger) *Host {
	return &Host{dir: dir, timeout: timeout, log: log, running: map[string]*Process{}}
}

// Names are the policies there are now.
func (h *Host) Names() ([]string, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return nil, fmt.Errorf("reading policy_dir: %w", err)
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), Prefix); ok && name != "" && !e.IsDir() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Policy returns the policy of that name. Its program is started when it is
// first asked for a decision.
func (h *Host) Policy(name string) (policy.Policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.running[name]; p != nil {
		return p, nil
	}
	path := filepath.Join(h.dir, Prefix+name)
	info, err := os.Stat(path)
	switch {
	case strings.ContainsAny(name, `/\`), errors.Is(err, fs.ErrNotExist):
		names, _ := h.Names() // only for the message
		return nil, fmt.Errorf("no policy is called %q: it is neither built in nor a program %s%s in %s, which has %v", name, Prefix, name, h.dir, names)
	case err != nil:
		return nil, fmt.Errorf("policy %s: %w", name, err)
	case info.Mode()&0o111 == 0:
		return nil, fmt.Errorf("policy %s: %s is not executable; chmod +x it", name, path)
	}
	p := &Process{name: name, path: path, timeout: h.timeout, log: h.log.Named(name)}
	h.running[name] = p
	return p, nil
}

// Close ends all programs.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.running {
		p.mu.Lock()
		p.end()
		p.mu.Unlock()
	}
}

// Process is a policy in a process of its own.
type Process struct {
	name, path string
	timeout    time.Duration
	log        hclog.Logger

	mu       sync.Mutex
	client   *plugin.Client
	rpc      policypb.PolicyClient
	stamp    string    // of the program that runs
	failures int       // in a row
	notAgain time.Time // not started before
	why      error     // the last failure
}

var _ policy.Policy = (*Process)(nil)

// Name implements policy.Policy.
func (p *Process) Name() string { return p.name }

// Allocate implements policy.Policy. Where the program fails all jobs keep
// their counts; callers that want to know use TryAllocate.
func (p *Process) Allocate(s *policy.Snapshot) policy.Decision {
	d, err := p.TryAllocate(s)
	if err == nil {
		return d
	}
	d = policy.Decision{State: s.State}
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Count, Reason: err.Error()})
	}
	return d
}

// TryAllocate asks the program. One that dies or does not answer in time is
// killed, and started again by a later call: at once after the first failure,
// then after pauses that double up to a minute.
func (p *Process) TryAllocate(s *policy.Snapshot) (policy.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := stamp(p.path); now != p.stamp && p.client != nil {
		p.log.Info("the program of the policy has changed; starting it again")
		p.end()
		p.notAgain = time.Time{}
	}
	if p.client == nil {
		if time.Now().Before(p.notAgain) {
			return policy.Decision{}, fmt.Errorf("policy %s: %w (started again at %s)", p.name, p.why, p.notAgain.Format(time.TimeOnly))
		}
		if err := p.start(); err != nil {
			return policy.Decision{}, p.failed(fmt.Errorf("starting %s: %w", p.path, err))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	answer, err := p.rpc.Allocate(ctx, toWire(s))
	if err != nil {
		return policy.Decision{}, p.failed(err)
	}
	d, err := decisionFromWire(s, answer)
	if err != nil {
		// The program works; what it says is wrong. It goes on.
		return policy.Decision{}, fmt.Errorf("policy %s: %w", p.name, err)
	}
	p.failures, p.why = 0, nil
	return d, nil
}

// failed kills the program and decides when it may start again.
func (p *Process) failed(err error) error {
	p.end()
	p.why = err
	if p.failures > 0 {
		p.notAgain = time.Now().Add(min(time.Second<<min(p.failures-1, 6), time.Minute))
	}
	p.failures++
	return fmt.Errorf("policy %s: %w", p.name, err)
}

func (p *Process) start() error {
	// It outlives the request that starts it; go-plugin kills it in the end.
	cmd := exec.CommandContext(context.Background(), p.path)
	for _, k := range []string{"PATH", "HOME", "LANG"} {
		if v, ok := os.LookupEnv(k); ok {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	at := stamp(p.path)
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugins(nil), Cmd: cmd, SkipHostEnv: true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, StartTimeout: p.timeout, Logger: p.log,
	})
	protocol, err := client.Client()
	if err != nil {
		client.Kill()
		return err
	}
	raw, err := protocol.Dispense(serviceName)
	if err != nil {
		client.Kill()
		return err
	}
	rpc, ok := raw.(policypb.PolicyClient)
	if !ok {
		client.Kill()
		return fmt.Errorf("unexpected client %T", raw)
	}
	p.client, p.rpc, p.stamp = client, rpc, at
	p.log.Info("policy started", "program", p.path)
	return nil
}

// end kills the program. The caller holds p.mu.
func (p *Process) end() {
	if p.client != nil {
		p.client.Kill()
		p.client, p.rpc = nil, nil
	}
}

// stamp changes when the program does.
func stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}
