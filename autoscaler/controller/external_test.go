// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// broken is an external policy that works until it is broken.
type broken struct {
	policy.Policy
	how atomic.Int32
}

func (b *broken) Allocate(s *policy.Snapshot) policy.Decision {
	d := b.Policy.Allocate(s)
	switch b.how.Load() {
	case 1:
		panic("a bug")
	case 2:
		for i := range d.Allocations {
			d.Allocations[i].Count = s.Jobs[i].Max
		}
	case 3:
		d.Allocations = nil
	}
	return d
}

type external struct{ p policy.Policy }

func (e external) Policy(string) (policy.Policy, error) { return e.p, nil }
func (e external) Names() ([]string, error)             { return nil, nil }

func TestController_ABrokenPolicyIsNotObeyed(t *testing.T) {
	w := newWorld(t, 2, 4)
	fine, err := builtin.Policies.New("elastic-fifo", nil)
	must.NoError(t, err)
	b := &broken{Policy: fine}
	c := w.config()
	c.Pools["default"] = config.Pool{Name: "default", Policy: "mine", Device: "gpu"}
	a, _ := w.startWith(c, external{b})
	w.watchful(8)
	w.job("a", 1, 8)
	w.job("b", 1, 8)
	w.eventually(map[string]int{"a": 4, "b": 4})
	for how, want := range map[int32]string{1: "panicked: a bug", 2: `8 workers for job default/b: they need 8 slots of type "nvidia/gpu/stand-in", and 0 are left`, 3: "it answered for 0 jobs of 2"} {
		b.how.Store(how)
		a.poke()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			return strings.Contains(a.Status().Pools[0].Problem, want)
		}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		w.eventually(map[string]int{"a": 4, "b": 4})
	}
	b.how.Store(0)
	a.poke()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		return a.Status().Pools[0].Problem == ""
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// hanging is a policy in a process of its own that may not answer.
type hanging struct {
	policy.Policy
	mu sync.Mutex // held while it hangs
	n  atomic.Int32
}

func (h *hanging) TryAllocate(s *policy.Snapshot) (policy.Decision, error) {
	h.n.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Allocate(s), nil
}

// The pool of a policy that does not answer keeps its last decision. All other pools go on.
func TestController_AHangingPolicyDelaysNoOther(t *testing.T) {
	w := newWorld(t, 4, 4)
	for i := range 2 {
		w.nomad.ChangeNode(i, func(n *nomadtest.Node) { n.Pool = "slow" })
	}
	fine, err := builtin.Policies.New("elastic-fifo", nil)
	must.NoError(t, err)
	h := &hanging{Policy: fine}
	c := w.config()
	c.Pools["slow"] = config.Pool{Name: "slow", Policy: "mine", Device: "gpu"}
	a, _ := w.startWith(c, external{h})
	job := func(id, pool string) {
		w.nomad.Register(nomadtest.Job{ID: id, Pool: pool, Max: 8, GPUs: 1, CPU: 100, Priority: 50, Elastic: w.elastic})
	}
	job("s1", "slow")
	job("a", "default")
	w.eventually(map[string]int{"s1": 8, "a": 8})

	h.mu.Lock()
	answer := sync.OnceFunc(h.mu.Unlock)
	t.Cleanup(answer)
	before := h.n.Load()
	job("s2", "slow")
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return h.n.Load() > before }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	job("b", "default")
	w.eventually(map[string]int{"a": 4, "b": 4})
	must.NoError(t, a.SetPaused(t.Context(), "", identity.JobKey{Namespace: "default", ID: "b"}, true))
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		var got []string
		for _, j := range a.Status().Jobs {
			got = append(got, fmt.Sprint(j.ID, " ", j.State, ": ", j.Reason))
		}
		if all := strings.Join(got, "; "); !strings.Contains(all, "b held") || !strings.Contains(all, "s2 waiting: no decision yet") {
			return errors.New(all)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.eventually(map[string]int{"s1": 8, "s2": 0})
	must.Eq(t, before+1, h.n.Load(), must.Sprint("asked again while it had not answered"))

	answer()
	w.eventually(map[string]int{"s1": 4, "s2": 4})
}

// brief is a context that ends after it was asked a few times.
type brief struct {
	context.Context
	left atomic.Int32
}

// Err implements context.Context.
func (b *brief) Err() error {
	if b.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// The caller of a plan goes away while a policy decides.
func TestPropose_StopsInThePolicy(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, _ := w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	ctx := &brief{Context: t.Context()}
	ctx.left.Store(2)
	_, err := a.Propose(ctx, "oasis", nil)
	must.ErrorIs(t, err, context.DeadlineExceeded)
	must.ErrorContains(t, err, "policy oasis")
	_, err = a.Propose(t.Context(), "oasis", nil)
	must.NoError(t, err)
}
