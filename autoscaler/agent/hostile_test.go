// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/standin"
)

// elastic is the policy of a job with these keys in its kolo block.
func elastic(keys map[string]any) map[string]any {
	return map[string]any{"kolo": []any{keys}}
}

// TestAgent_HostileJobsHarmNoOther has jobs that Nomad accepts and that ask for
// more than there are integers.
func TestAgent_HostileJobsHarmNoOther(t *testing.T) {
	w := newWorld(t, 1, 4)
	for i, keys := range []map[string]any{{"powers_of_two": true}, {"step": 1.0}, {"step": 2.0}, {"min": 1e300}, {"weight": 1e-320}, {"total_work": 1e308}} {
		w.nomad.Register(standin.Job{ID: fmt.Sprint("hostile-", i), Max: 1 << 62, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(keys)})
	}
	a, _ := w.start(w.config())
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := a.Status()
		return len(s.Aside) == 6 && len(s.Jobs) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for _, x := range a.Status().Aside {
		must.SliceNotEmpty(t, x.Problems)
	}
}

// TestAgent_LargestJobIsCheap has a job with as many sizes as there may be
// under each policy.
func TestAgent_LargestJobIsCheap(t *testing.T) {
	w := newWorld(t, 1, 4)
	for i, keys := range []map[string]any{{"step": 3.0, "deadline": "6h"}, {"deadline": "6h"}, {"powers_of_two": true}} {
		w.nomad.Register(standin.Job{ID: fmt.Sprint("large-", i), Max: 100_000, GPUs: 1, CPU: 100, Priority: 50, Elastic: elastic(keys)})
	}
	a, _ := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Jobs) == 3 }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for _, name := range []string{"kolo", "ffdl", "elasticflow", "oasis", "weighted-fair", "afs-l", "optimus", "themis", "dragon"} {
		start := time.Now()
		_, err := a.Propose(name)
		must.NoError(t, err)
		t.Log(name, time.Since(start))
	}
}
