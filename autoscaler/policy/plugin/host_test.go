// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// kindEnv makes the test binary a policy of some kind instead of a test.
const kindEnv = "KOLO_TEST_POLICY"

func TestMain(m *testing.M) {
	if kind := os.Getenv(kindEnv); kind != "" {
		Serve(hostile(kind))
		return
	}
	if dir := os.Getenv(agentEnv); dir != "" {
		if err := playAgent(dir); err != nil {
			fmt.Println(err)
		}
		return
	}
	m.Run()
}

// hostile is a policy that misbehaves in the way its name promises.
type hostile string

func (h hostile) Name() string { return string(h) }

func (h hostile) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	switch h {
	case "hang":
		time.Sleep(time.Hour)
	case "slow":
		time.Sleep(time.Second)
	case "die":
		os.Exit(3) //nolint:forbidigo // a program that dies is what is tested
	case "silent":
		return d
	case "hoarder":
		d.State = make([]byte, stateLimit+1)
	case "stranger":
		d.Allocations = append(d.Allocations, policy.Allocation{Job: "who?"})
	case "negative":
		for i := range s.Jobs {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: -1})
		}
		return d
	case "never":
		d.RequeueAt = math.NaN()
	case "flood":
		d.State = make([]byte, answerLimit+1)
	case "panic":
		panic("a bug in the policy")
	case "huge":
		for i := range s.Jobs {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: 1 << 40})
		}
		return d
	case "odd":
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[0].ID, Count: 2}, policy.Allocation{Job: s.Jobs[1].ID, Count: 3})
		return d
	case "twice":
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[0].ID})
	case "snoop":
		for i := range s.Jobs {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Reason: snoop()})
		}
		return d
	case "token":
		for i := range s.Jobs {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Reason: os.Getenv("NOMAD_TOKEN")})
		}
		return d
	}
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Min, Reason: "v1"})
	}
	return d
}

// put writes a program that runs the test binary as a policy.
func put(t *testing.T, dir, name, kind string) {
	t.Helper()
	self, err := os.Executable()
	must.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s\n", kindEnv, kind, self)
	must.NoError(t, os.WriteFile(filepath.Join(dir, Prefix+name), []byte(script), 0o700))
}

func host(t *testing.T) (*Host, string) {
	dir := t.TempDir()
	h := NewHost(dir, 5*time.Second, hclog.NewNullLogger())
	t.Cleanup(h.Close)
	return h, dir
}

func process(t *testing.T, h *Host, name string) *Process {
	t.Helper()
	p, err := h.Policy(name)
	must.NoError(t, err)
	return p.(*Process)
}

func snapshot() *policy.Snapshot {
	return &policy.Snapshot{
		Nodes: []policy.Node{{ID: "n", GPUs: 8, Free: 8}},
		Jobs: []policy.Job{
			{ID: "default/b", Min: 2, Max: 8, Preferred: 4, Curve: speedup.NewCurve(speedup.Point{Size: 2, StepTime: 0.5})},
			{ID: "default/a", Min: 1, Max: 4, Preferred: 4, Count: 1, Sizes: sizes.List(1, 2, 4)},
		},
	}
}

func TestHost_FindsAndHotAdds(t *testing.T) {
	h, dir := host(t)
	_, err := h.Policy("good")
	must.ErrorContains(t, err, `no policy is called "good"`)
	put(t, dir, "good", "good")
	names, err := h.Names()
	must.NoError(t, err)
	must.Eq(t, []string{"good"}, names)

	p := process(t, h, "good")
	d, err := p.TryAllocate(snapshot())
	must.NoError(t, err)
	must.Eq(t, []policy.Allocation{{Job: "default/b", Count: 2, Reason: "v1"}, {Job: "default/a", Count: 1, Reason: "v1"}}, d.Allocations)

	must.NoError(t, os.Chmod(filepath.Join(dir, Prefix+"good"), 0o600))
	_, err = NewHost(dir, time.Second, hclog.NewNullLogger()).Policy("good")
	must.ErrorContains(t, err, "chmod +x")
	_, err = h.Policy("../good")
	must.ErrorContains(t, err, "no policy is called")
}

func TestProcess_Misbehaves(t *testing.T) {
	for kind, want := range map[string]string{
		"silent":   "it did not answer for job default/b",
		"stranger": `it answered for job "who?"`,
		"negative": "-1 workers for job default/b",
		"hoarder":  "bytes, more than",
		"never":    "it wants to be asked again at NaN",
		"huge":     "1099511627776 workers for job default/b",
		"odd":      "3 workers for job default/a: its sizes are [1 2 4]",
		"twice":    "it answered twice for job default/b",
	} {
		t.Run(kind, func(t *testing.T) {
			h, dir := host(t)
			put(t, dir, kind, kind)
			p := process(t, h, kind)
			s := snapshot()
			d, err := p.TryAllocate(s)
			if err == nil {
				err = policy.Validate(s, &d) // as every caller does
			}
			must.ErrorContains(t, err, want)
			must.NotNil(t, p.client, must.Sprint("it was killed for its answer"))
		})
	}
}

func TestProcess_DiesAndIsStartedAgain(t *testing.T) {
	h, dir := host(t)
	put(t, dir, "x", "die")
	p := process(t, h, "x")
	_, err := p.TryAllocate(snapshot())
	must.Error(t, err)
	must.Nil(t, p.client)
	_, err = p.TryAllocate(snapshot()) // at once
	must.Error(t, err)
	_, err = p.TryAllocate(snapshot()) // not at once again
	must.ErrorContains(t, err, "started again at")
	var rest *RestingError
	must.True(t, errors.As(err, &rest))
	must.True(t, rest.RetryAt().After(time.Now().Add(-time.Second)))

	// Callers that cannot take an error are given the present counts.
	d := p.Allocate(snapshot())
	must.Eq(t, 1, d.Allocations[1].Count)

	t.Log("a better program is taken at once")
	p.failures, p.notAgain = 9, time.Now().Add(time.Hour)
	put(t, dir, "x", "good-one")
	_, err = p.TryAllocate(snapshot())
	must.NoError(t, err)
}

// TestProcess_Fails has programs that are killed, and programs that go-plugin never accepts
// as a policy.
func TestProcess_Fails(t *testing.T) {
	handshake := "KOLO_POLICY_PLUGIN"
	for name, tc := range map[string]struct{ script, kind, want string }{
		"panics": {kind: "panic", want: "the program ended instead of answering"},
		"floods": {kind: "flood", want: "received message larger than max"},
		// Not at once: go-plugin 1.7.0 races with itself then (client.go, Start
		// adds to a wait group that is waited for already).
		"ends soon":        {script: "sleep 0.2; exit 7", want: "Failed to read any lines from plugin's stdout"},
		"prints garbage":   {script: "echo hello; sleep 60", want: "Unrecognized remote plugin message: hello"},
		"another protocol": {script: "echo '1|99|unix|/nowhere|grpc|'; sleep 60", want: "incompatible API version with plugin. Plugin version: 99"},
		"another go-plugin": {script: "echo '9|1|unix|/nowhere|grpc|'; sleep 60",
			want: "incompatible core API version"},
		"net/rpc":            {script: "echo '1|1|unix|/nowhere|netrpc|'; sleep 60", want: `unsupported plugin protocol "netrpc"`},
		"nothing listens":    {script: "echo '1|1|unix|/nowhere|grpc|'; sleep 60", want: "no such file or directory"},
		"is run by hand":     {script: "[ -n \"$" + handshake + "\" ] && echo not by hand; sleep 60", want: "not by hand"},
		"is silent":          {script: "sleep 60", want: "timeout while waiting for plugin to start"},
		"is no program":      {script: "\x00", want: "starting "},
		"floods its stdout":  {script: "yes | tr -d '\\n'", want: "starting "},
		"closes its streams": {script: "exec >&- 2>&-; sleep 60", want: "starting "},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := host(t)
			if tc.kind != "" {
				put(t, dir, "x", tc.kind)
			} else {
				h.timeout = time.Second
				must.NoError(t, os.WriteFile(filepath.Join(dir, Prefix+"x"), []byte("#!/bin/sh\n"+tc.script+"\n"), 0o700))
			}
			p := process(t, h, "x")
			_, err := p.TryAllocate(snapshot())
			must.ErrorContains(t, err, tc.want)
			must.StrNotContains(t, err.Error(), "\n")
			must.Less(t, 600, len(err.Error()))
			must.Nil(t, p.client)
		})
	}
}

func TestProcess_HangsAndIsKilled(t *testing.T) {
	h, dir := host(t)
	put(t, dir, "x", "hang")
	p := process(t, h, "x")
	p.timeout = 3 * time.Second
	_, err := p.TryAllocate(snapshot())
	must.ErrorContains(t, err, "no answer within 3s; it was killed")
	must.Nil(t, p.client)
}

func TestHost_CloseDoesNotWaitForAProgramThatHangs(t *testing.T) {
	h, dir := host(t)
	h.timeout = time.Hour
	put(t, dir, "x", "hang")
	p := process(t, h, "x")
	asked := make(chan error, 1)
	go func() {
		_, err := p.TryAllocate(snapshot())
		asked <- err
	}()
	for len(p.turn) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.Close()
	must.Error(t, <-asked)
	_, err := p.TryAllocate(snapshot())
	must.ErrorIs(t, err, context.Canceled)
}

// TestProcess_IsNotWaitedFor cancels a decision, while the program makes it or while
// another decision uses the program. The program is not blamed for that.
func TestProcess_IsNotWaitedFor(t *testing.T) {
	h, dir := host(t)
	h.timeout = time.Hour
	put(t, dir, "x", "hang")
	p := process(t, h, "x")
	why := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := make(chan error, 2)
	for range 2 {
		go func() {
			s := snapshot()
			s.Context = ctx
			_, err := p.TryAllocate(s)
			asked <- err
		}()
	}
	for len(p.turn) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel(why)
	must.ErrorIs(t, <-asked, why)
	must.ErrorIs(t, <-asked, why)

	put(t, dir, "y", "slow")
	p = process(t, h, "y")
	s, started := snapshot(), make(chan struct{})
	ctx, cancel = context.WithCancelCause(t.Context())
	s.Context = ctx
	go func() {
		defer close(started)
		for len(p.turn) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(why)
	}()
	_, err := p.TryAllocate(s)
	<-started
	must.ErrorIs(t, err, why)
	_, err = p.TryAllocate(snapshot())
	must.NoError(t, err)
	must.Zero(t, p.failures)
}

func TestProcess_ChangesOnDisk(t *testing.T) {
	h, dir := host(t)
	put(t, dir, "x", "good")
	p := process(t, h, "x")
	_, err := p.TryAllocate(snapshot())
	must.NoError(t, err)
	put(t, dir, "x", "silent")
	_, err = p.TryAllocate(snapshot())
	must.ErrorContains(t, err, "did not answer")
}

func TestProcess_SeesNoToken(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "secret")
	h, dir := host(t)
	put(t, dir, "x", "token")
	d, err := process(t, h, "x").TryAllocate(snapshot())
	must.NoError(t, err)
	must.Eq(t, "", d.Allocations[0].Reason)
}

func TestConvert_RoundTrip(t *testing.T) {
	s := snapshot()
	s.Now, s.Seed, s.ResizeCost, s.Changed, s.State = 12.5, 7, 0.25, true, []byte("x")
	s.Jobs[0].Deadline, s.Jobs[0].Preemptible, s.Jobs[0].Tenant = 99, true, "ml"
	must.Eq(t, toWire(s).String(), toWire(fromWire(toWire(s))).String())
}

// TestExamples runs the examples that users are asked to copy.
func TestExamples(t *testing.T) {
	t.Run("go", func(t *testing.T) {
		h, dir := host(t)
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, Prefix+"even"), "./examples/go").CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		d, err := process(t, h, "even").TryAllocate(snapshot())
		must.NoError(t, err)
		must.Eq(t, []int{4, 4}, []int{d.Allocations[0].Count, d.Allocations[1].Count})
	})
	t.Run("python", func(t *testing.T) {
		if err := exec.CommandContext(t.Context(), "python3", "-c", "import grpc_tools, grpc").Run(); err != nil {
			t.Skip("python3 has no grpcio-tools (pip install grpcio-tools)")
		}
		h, dir := host(t)
		h.timeout = time.Minute // Python imports
		for from, to := range map[string]string{
			"examples/python/kolo-policy-oldest": Prefix + "oldest", "policypb/policy.proto": "policy.proto",
		} {
			text, err := os.ReadFile(from)
			must.NoError(t, err)
			must.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o700))
		}
		d, err := process(t, h, "oldest").TryAllocate(snapshot())
		must.NoError(t, err)
		must.Eq(t, []int{7, 1}, []int{d.Allocations[0].Count, d.Allocations[1].Count})
	})
}
