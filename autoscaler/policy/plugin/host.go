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
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/autoscaler/api/nodump"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin/policypb"
)

// Prefix begins the file name of every policy program.
const Prefix = "kolo-policy-"

// Host runs the policy programs of a directory.
type Host struct {
	dir     string
	timeout time.Duration
	log     hclog.Logger
	ctx     context.Context //nolint:containedctx // of all programs, whose calls have none; Close ends it
	stop    context.CancelFunc

	mu      sync.Mutex
	running map[string]*Process
}

// NewHost returns a host for the programs of a directory. A policy has timeout to
// start, and timeout for each decision. NewHost makes this process non-dumpable, so
// that no program reads its environment. The caller must Close the host.
func NewHost(dir string, timeout time.Duration, log hclog.Logger) *Host {
	if err := nodump.Set(); err != nil {
		log.Warn("policies in policy_dir can read the environment of this process, including a Nomad token", "error", err)
	}
	h := &Host{dir: dir, timeout: timeout, log: log, running: map[string]*Process{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Names returns the names of the policies that the directory contains now.
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

// Policy returns the policy of that name. Its program starts with the first request
// for a decision.
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
	p := &Process{name: name, path: path, timeout: h.timeout, ctx: h.ctx, log: h.log.Named(name), turn: make(chan struct{}, 1)}
	h.running[name] = p
	return p, nil
}

// Close ends all programs and the decisions that are under way. No program starts
// after it.
func (h *Host) Close() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.running {
		p.turn <- struct{}{}
		p.end()
		<-p.turn
	}
}

// Process is a policy that runs in its own process.
type Process struct {
	name, path string
	timeout    time.Duration
	ctx        context.Context //nolint:containedctx // of the host: what is under way outlives a caller that gave up
	log        hclog.Logger

	turn     chan struct{} // full while a request or end is under way; guards the fields below
	client   *plugin.Client
	cmd      *exec.Cmd
	rpc      policypb.PolicyClient
	stamp    string    // of the program file that was last started
	failures int       // in a row
	notAgain time.Time // earliest next start
	why      error     // the last failure
}

var _ policy.Policy = (*Process)(nil)

// Name implements policy.Policy.
func (p *Process) Name() string { return p.name }

// Allocate implements policy.Policy. If the program fails, all jobs keep their
// counts; TryAllocate returns the error instead.
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

// RestingError is the error for a program that failed and has not been restarted yet.
type RestingError struct {
	Policy string
	Why    error
	Until  time.Time
}

// Error implements error.
func (r *RestingError) Error() string {
	return fmt.Sprintf("policy %s: %v (started again at %s)", r.Policy, r.Why, r.Until.Format(time.TimeOnly))
}

// Unwrap returns the failure.
func (r *RestingError) Unwrap() error { return r.Why }

// RetryAt returns the earliest time at which the program may be asked again.
func (r *RestingError) RetryAt() time.Time { return r.Until }

// answerLimit bounds the size of an answer in bytes. It has ample room for the
// reasons of thousands of jobs.
const answerLimit = 32 << 20

// TryAllocate asks the program for a decision. A program that dies or misses its
// timeout is killed, and a later call restarts it: immediately after the first
// failure, then after pauses that double up to a minute. During a pause the error is
// a RestingError. TryAllocate stops waiting when the context of s ends. The program
// handles one request after another, so it keeps working on the abandoned request
// until its timeout.
func (p *Process) TryAllocate(s *policy.Snapshot) (policy.Decision, error) {
	ctx := s.Context
	if ctx == nil {
		ctx = p.ctx
	}
	gone := func() (policy.Decision, error) {
		return policy.Decision{}, fmt.Errorf("policy %s: %w", p.name, context.Cause(ctx))
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return gone()
	}
	type reply struct {
		answer *policypb.Decision
		err    error
	}
	replied := make(chan reply, 1)
	in := toWire(s)
	go func() { // ends within the timeouts for starting and deciding, or with the host
		answer, err := p.ask(in)
		<-p.turn
		replied <- reply{answer, err}
	}()
	select {
	case r := <-replied:
		if r.err != nil {
			return policy.Decision{}, r.err
		}
		d, err := decisionFromWire(s, r.answer)
		if err != nil {
			// The program works and keeps running; only its decision is invalid.
			return policy.Decision{}, fmt.Errorf("policy %s: %w", p.name, err)
		}
		return d, nil
	case <-ctx.Done():
		return gone()
	}
}

// ask sends a request, after starting the program if it is not running. The caller
// holds p.turn.
func (p *Process) ask(in *policypb.Snapshot) (*policypb.Decision, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.name, err)
	}
	if now := stamp(p.path); now != p.stamp {
		if p.client != nil {
			p.log.Info("the program of the policy has changed; starting it again")
			p.end()
		}
		p.stamp, p.failures, p.notAgain = now, 0, time.Time{} // a new program starts with a clean record
	}
	if p.client == nil {
		if time.Now().Before(p.notAgain) {
			return nil, &RestingError{p.name, p.why, p.notAgain}
		}
		if err := p.start(); err != nil {
			return nil, p.failed(fmt.Errorf("starting %s: %w", p.path, oneLine(err)))
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.Allocate(ctx, in, grpc.MaxCallRecvMsgSize(answerLimit))
	switch {
	case err == nil:
		p.failures, p.why = 0, nil
		return answer, nil
	case p.ctx.Err() == nil && (ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded):
		// The program's side knows the deadline too, and may report it first.
		return nil, p.failed(fmt.Errorf("no answer within %s; it was killed", p.timeout))
	case status.Code(err) == codes.Unavailable:
		return nil, p.failed(fmt.Errorf("the program ended instead of answering; its last words are in the autoscaler's log: %w", oneLine(err)))
	default:
		return nil, p.failed(oneLine(err))
	}
}

// failed kills the program and sets the time of its next start.
func (p *Process) failed(err error) error {
	p.end()
	p.why = err
	again := time.Now()
	if p.failures > 0 {
		again = again.Add(min(time.Second<<min(p.failures-1, 6), time.Minute))
	}
	p.notAgain = again
	p.failures++
	return &RestingError{p.name, err, again}
}

// oneLine returns an error whose text fits on a line of a table; go-plugin writes
// some errors as a paragraph.
func oneLine(err error) error {
	text := []rune(strings.Join(strings.Fields(err.Error()), " "))
	if len(text) > 300 {
		text = append(text[:300], '…')
	}
	return errors.New(string(text))
}

// start starts the program. After an error the caller must end it.
func (p *Process) start() error {
	// The program outlives the request that starts it; go-plugin kills it in the end.
	cmd := exec.CommandContext(context.Background(), p.path)
	for _, k := range []string{"PATH", "HOME", "LANG"} {
		if v, ok := os.LookupEnv(k); ok {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	cmd.SysProcAttr = processGroup() // it may be a script that starts other programs
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugins(nil), Cmd: cmd, SkipHostEnv: true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, StartTimeout: p.timeout, Logger: p.log,
	})
	p.client, p.cmd = client, cmd
	protocol, err := client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(serviceName)
	if err != nil {
		return err
	}
	rpc, ok := raw.(policypb.PolicyClient)
	if !ok {
		return fmt.Errorf("unexpected client %T", raw)
	}
	p.rpc = rpc
	p.log.Info("policy started", "program", p.path)
	return nil
}

// end kills the program. The caller holds p.turn.
func (p *Process) end() {
	if p.client == nil {
		return
	}
	if p.cmd.Process != nil {
		// Kill the whole group: go-plugin would wait for every process that holds its
		// stderr.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	}
	p.client.Kill()
	p.client, p.rpc, p.cmd = nil, nil, nil
}

// stamp returns a value that changes with the program's file.
func stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}
