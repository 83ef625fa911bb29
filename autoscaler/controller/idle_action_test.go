// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// last returns the message of the last change of a job's count in Nomad.
func last(t *testing.T, a *Controller, id string) string {
	t.Helper()
	changes, err := a.History(t.Context(), identity.JobKey{Namespace: "default", ID: id})
	must.NoError(t, err)
	must.SliceNotEmpty(t, changes)
	newest := changes[0]
	for _, c := range changes {
		if c.Time.After(newest.Time) {
			newest = c
		}
	}
	return newest.Message
}

// An idle job shrinks to its minimum, and others get its slots. It grows again when it
// makes steps.
func TestController_IdleShrinks(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.watchful(8)
	a := w.idling(func(p *config.Pool) { p.IdleAction = config.IdleShrink })
	x := w.trains("x", 8, map[string]any{"min": 2})
	w.eventually(map[string]int{"x": 8})
	becomes(t, a, "x", steps)

	x.steps.Store(false)
	w.eventually(map[string]int{"x": 2})
	must.StrContains(t, last(t, a, "x"), "it is idle and has its minimum until it makes steps again (no step since ")
	w.trains("y", 8, map[string]any{"min": 2})
	w.eventually(map[string]int{"x": 2, "y": 6})
	becomes(t, a, "x", func(j *api.JobStatus) bool { return isIdle(j) && strings.HasPrefix(j.Reason, "it is idle") })

	x.steps.Store(true)
	w.eventually(map[string]int{"x": 4, "y": 4})
	becomes(t, a, "x", steps)
}

// An idle preemptible job is suspended until its user registers it again, also under the
// next leader. Any other idle job keeps its minimum.
func TestController_IdleSuspends(t *testing.T) {
	w := newWorld(t, 1, 8)
	var suspended atomic.Bool
	within := watch(t, w.nomad, 8)
	w.nomad.OnScale = func(job, group string, from, to int) {
		within(job, group, from, to)
		if job == "p" && to > 0 && suspended.Load() {
			t.Errorf("p resumes with %d workers", to)
		}
	}
	suspends := func(p *config.Pool) { p.IdleAction = config.IdleSuspend }
	a := w.idling(suspends)
	p := w.trains("p", 4, map[string]any{"min": 1, "preemptible": true})
	n := w.trains("n", 4, map[string]any{"min": 2})
	w.eventually(map[string]int{"p": 4, "n": 4})
	becomes(t, a, "p", steps)
	becomes(t, a, "n", steps)

	p.steps.Store(false)
	w.eventually(map[string]int{"p": 0, "n": 4})
	must.StrContains(t, last(t, a, "p"), "it is idle and is suspended (no step since ")
	n.steps.Store(false)
	w.eventually(map[string]int{"p": 0, "n": 2})
	held := func(j *api.JobStatus) bool {
		return j.State == api.StateHeld && strings.Contains(j.HoldReason, "register or scale it") && j.Idle == 0
	}
	becomes(t, a, "p", held)

	t.Log("the next leader leaves it so")
	suspended.Store(true)
	a.save(t.Context())
	b := w.idling(suspends)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		if !b.Status().Leading {
			w.nomad.ExpireLock("kolo/leader")
		}
		return b.Status().Leading
	}), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
	becomes(t, b, "p", held)
	w.eventually(map[string]int{"p": 0, "n": 2})

	t.Log("its user registers it again")
	suspended.Store(false)
	p.steps.Store(true)
	w.nomad.Register(nomadtest.Job{ID: "p", Max: 4, GPUs: 1, CPU: 100, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{"min": 1, "preemptible": true}}}})
	w.eventually(map[string]int{"p": 4, "n": 2})
}

// A suspension waits for the end of the hold. Until then, the status shows it as wanted and
// proposed.
func TestController_IdleWaitsForTheHold(t *testing.T) {
	w := newWorld(t, 1, 4)
	a := w.idling(func(p *config.Pool) { p.IdleAction = config.IdleSuspend }, func(c *config.Config) { c.Planner.Hold = time.Hour })
	p := w.trains("p", 4, map[string]any{"min": 1, "preemptible": true})
	w.eventually(map[string]int{"p": 4})
	becomes(t, a, "p", steps)
	p.steps.Store(false)
	becomes(t, a, "p", func(j *api.JobStatus) bool { return isIdle(j) && j.Want == 0 && j.HoldReason == "resized just now" })
	w.eventually(map[string]int{"p": 4})
	proposals, err := a.Propose(t.Context(), "", nil)
	must.NoError(t, err)
	must.Len(t, 1, proposals)
	must.Len(t, 1, proposals[0].Jobs)
	must.Zero(t, proposals[0].Jobs[0].Want)
	must.StrHasPrefix(t, "it is idle and is suspended", proposals[0].Jobs[0].Reason)
	must.Eq(t, 4, proposals[0].Jobs[0].Write)

	p.steps.Store(true)
	becomes(t, a, "p", func(j *api.JobStatus) bool { return steps(j) && j.Want == 4 && j.HoldReason == "" })
	w.eventually(map[string]int{"p": 4})
}

// idleWorld returns a view of a pool of 32 slots with random jobs, some of which are idle.
func idleWorld(r *rand.Rand, c *Controller, now time.Time) *cluster.View {
	v := &cluster.View{}
	free := 0
	class := &planner.Class{}
	for n := range 4 {
		v.Nodes = append(v.Nodes, planner.Node{ID: fmt.Sprint("n", n), Pool: "gpu", CPU: 1e6, Memory: 1e6, Bins: []planner.Bin{{Slots: 8}}})
		class.Places = append(class.Places, placement.Place{Node: n})
		free += 8
	}
	for i := range 1 + r.IntN(8) {
		least := 1 + r.IntN(4)
		most := least + r.IntN(12)
		j := planner.Job{
			Key: identity.JobKey{Namespace: "default", ID: fmt.Sprint("j", i)}, Pool: "gpu", Min: least, Max: most, Priority: 50,
			Preemptible: r.IntN(2) == 0, LastChange: now.Add(-time.Hour),
		}
		if r.IntN(3) == 0 {
			j.Sizes = sizes.List(least, most)
		}
		count := j.Sizes.Fit(r.IntN(most+1), least, most)
		if count > free {
			count = 0
		}
		g := planner.Group{Name: "w", Count: count, Max: most, Need: placement.Need{Slots: 1}, Class: class}
		for range count {
			free--
			g.Live = append(g.Live, planner.Worker{Place: placement.Place{Node: free / 8}})
		}
		j.Groups = []planner.Group{g}
		j.Started = count > 0
		f := cluster.Facts{
			Spec:        &jobspec.Spec{Weight: 1, Priority: 50, Preferred: least + r.IntN(most-least+1)},
			Tenant:      "default",
			Observation: history.Observation{Created: 1, Version: 1, Running: count, Slots: 1, Whole: true},
		}
		h := c.history.Job(j.Key, &f.Observation, now)
		if count > 0 {
			h.FirstStart, h.Whole, h.RunTime = now.Add(-2*time.Hour), true, 7200
		}
		if r.IntN(2) == 0 {
			h.Quiet = &history.Quiet{Since: now.Add(-time.Duration(r.IntN(120)) * time.Minute), Heard: now}
		}
		v.Jobs, v.Facts = append(v.Jobs, j), append(v.Facts, f)
	}
	return v
}

// Under each policy, an idle job gets at most its minimum, unless idle jobs are only
// reported. A job that is not preemptible never gets less than its minimum, and the
// policy's decision holds for other jobs.
func TestIdleAction_Properties(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, name := range builtin.Policies.Names() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				for _, action := range []string{config.IdleNotify, config.IdleShrink, config.IdleSuspend} {
					checkIdle(t, name, action, seed, now)
				}
			}
		})
	}
}

func checkIdle(t *testing.T, name, action string, seed uint64, now time.Time) {
	t.Helper()
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	pool := config.Pool{Name: "gpu", IdleAfter: time.Hour, IdleAction: action}
	v := idleWorld(rand.New(rand.NewPCG(seed, 1)), c, now)
	for i := range v.Jobs {
		c.job(v.Jobs[i].Key).noteIdle(pool, &v.Jobs[i])
	}
	p, err := builtin.Policies.Parse(name)
	must.NoError(t, err)
	q := c.request(v, "gpu", &poolPolicy{policy: p}, now)
	q.run()
	must.NoError(t, q.err, must.Sprintf("seed %d, %s", seed, action))
	decided, wants := q.wants(), make([]planner.Want, len(v.Jobs))
	for i := range v.Jobs {
		j := &v.Jobs[i]
		known := c.job(j.Key)
		wants[i] = known.restrain(j, decided[j.Key])
		known.noteSuspension(j, v.Facts[i].Version, wants[i])
		where := must.Sprintf("seed %d, %s, %s: %+v wants %+v", seed, action, j.Key, j, wants[i])
		if known.idle == 0 || action == config.IdleNotify {
			must.Eq(t, decided[j.Key], wants[i], where)
			must.Zero(t, known.IdleAt, where)
			continue
		}
		must.LessEq(t, smallest(j), wants[i].Count, where)
		must.Eq(t, action == config.IdleSuspend && j.Preemptible, known.IdleAt > 0, where)
	}
	plan := planner.Make(&v.Cluster, wants, now, planner.DefaultOptions())
	for _, act := range plan.Actions {
		for i := range v.Jobs {
			if j := &v.Jobs[i]; j.Key == act.Job && j.Started && !j.Preemptible {
				must.GreaterEq(t, min(j.Count(), smallest(j)), act.To, must.Sprintf("seed %d, %s: %+v", seed, action, act))
			}
		}
	}
}
