// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// elastic returns the scaling policy of a job with these keys in its kolo block.
func elastic(keys map[string]any) map[string]any {
	return map[string]any{"kolo": []any{keys}}
}

// The jobs request numbers that overflow integers and that Nomad accepts.
func TestController_HostileJobsHarmNoOther(t *testing.T) {
	w := newWorld(t, 1, 4)
	for i, keys := range []map[string]any{{"powers_of_two": true}, {"step": 1.0}, {"step": 2.0}, {"min": 1e300}, {"weight": 1e-320}, {"total_work": 1e308}} {
		w.nomad.Register(nomadtest.Job{ID: fmt.Sprint("hostile-", i), Max: 1 << 62, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(keys)})
	}
	a, _ := w.start(w.config())
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := a.Status()
		return len(s.Ineligible) == 6 && len(s.Jobs) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for _, x := range a.Status().Ineligible {
		must.SliceNotEmpty(t, x.Problems)
	}
}

// The job has as many sizes as are allowed. It is tested under each policy.
func TestController_LargestJobIsCheap(t *testing.T) {
	w := newWorld(t, 1, 4)
	for i, keys := range []map[string]any{{"step": 3.0, "deadline": "6h"}, {"deadline": "6h"}, {"powers_of_two": true}} {
		w.nomad.Register(nomadtest.Job{ID: fmt.Sprint("large-", i), Max: 100_000, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(keys)})
	}
	a, _ := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Jobs) == 3 }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for _, name := range []string{"kolo", "ffdl", "elasticflow", "oasis", "weighted-fair", "afs-l", "optimus", "themis", "dragon", "pollux"} {
		start := time.Now()
		_, err := a.Propose(t.Context(), name, nil)
		must.NoError(t, err)
		t.Log(name, time.Since(start))
	}
}

// The caller of a plan has gone away, so the rest of the plan is not made.
func TestController_ProposeEndsWithItsCaller(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.nomad.Register(nomadtest.Job{ID: "train", Max: 4, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(map[string]any{})})
	a, _ := w.start(w.config())
	w.eventually(map[string]int{"train": 4})
	out, err := a.Propose(t.Context(), "", nil)
	must.NoError(t, err)
	must.Len(t, 1, out)
	must.Eq(t, "train", out[0].Jobs[0].ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.Propose(ctx, "", nil)
	must.ErrorIs(t, err, context.Canceled)
}

// A team uses another's queue until the operator configures its owner and reloads the
// configuration.
func TestController_QueueRulesHoldAtOnce(t *testing.T) {
	w := newWorld(t, 1, 4)
	c := w.config()
	a, _ := w.start(c)
	w.nomad.Register(nomadtest.Job{ID: "grabber", Max: 4, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(map[string]any{"queue": "production", "priority": 100.0})})
	w.eventually(map[string]int{"grabber": 4})

	reload := func(q config.Queue) {
		changed := *c
		changed.Pools = map[string]config.Pool{"default": {Name: "default", Policy: "elastic-fifo", Device: "gpu", Queues: map[string]config.Queue{q.Name: q}}}
		must.NoError(t, a.Reload(&changed))
	}
	reload(config.Queue{Name: "production", MaxPriority: 30})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := a.Status()
		return len(s.Jobs) == 1 && s.Jobs[0].Requests.Priority == 30 && len(s.Jobs[0].Notes) == 1 && len(s.Pools[0].Queues) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))

	reload(config.Queue{Name: "production", Namespaces: []string{"prod"}})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := a.Status()
		return len(s.Jobs) == 0 && len(s.Ineligible) == 1 && len(s.Ineligible[0].Problems) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	counts, _ := w.nomad.Counts()
	must.Eq(t, 4, counts["grabber"], must.Sprint("it keeps its workers, and is not stopped"))
}

// A tenant has many jobs that report endless resizes.
func TestResizeCost_OneTenantsGapsAreOneVoice(t *testing.T) {
	for name, tc := range map[string]struct {
		gaps map[string][]float64
		want float64
	}{
		"nothing measured":          {nil, 1},
		"one namespace":             {map[string][]float64{"a": {3, 0.2, 0.4}}, 0.4},
		"one that lies, and none":   {map[string][]float64{"a": nil, "b": {3000, 3000}}, 1},
		"one that lies, and one":    {map[string][]float64{"a": {0.2, 0.3}, "b": {3000, 3000, 3000, 3000, 3000}}, 1},
		"one that lies, of three":   {map[string][]float64{"a": {0.2}, "b": {3000}, "c": {0.4}}, 0.4},
		"two that are slow, of two": {map[string][]float64{"a": {20}, "b": {30}}, 20},
		"beyond belief":             {map[string][]float64{"b": {1e9, 1e9}}, 1},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.want, resizeCost(tc.gaps, 1)) })
	}
}
