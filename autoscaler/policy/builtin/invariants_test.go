// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// drawCurve draws curves of any shape, peaks and gaps included.
func drawCurve(t *rapid.T) speedup.Curve {
	points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) speedup.Point {
		return speedup.Point{
			Size:     rapid.IntRange(1, 70).Draw(t, "size"),
			StepTime: rapid.Float64Range(1e-3, 100).Draw(t, "step"),
			Samples:  rapid.IntRange(0, 100).Draw(t, "samples"),
			Spread:   rapid.Float64Range(0, 10).Draw(t, "spread"),
		}
	}), 0, 8).Draw(t, "points")
	return speedup.NewCurve(points...)
}

// drawSnapshot draws snapshots as wild as live ones may get: several GPU
// types, gaps in curves, bounds changed under running jobs, capacity lost.
func drawSnapshot(t *rapid.T) *policy.Snapshot {
	types := []string{"", "a100", "h100"}[:rapid.IntRange(1, 3).Draw(t, "types")]
	s := &policy.Snapshot{
		Now:        rapid.Float64Range(0, 1e6).Draw(t, "now"),
		Seed:       rapid.Uint64().Draw(t, "seed"),
		ResizeCost: rapid.SampledFrom([]float64{0, 1, 30, 600}).Draw(t, "cost"),
		Changed:    rapid.Bool().Draw(t, "changed"),
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, policy.Node{
			ID: fmt.Sprint("n", i), Type: rapid.SampledFrom(types).Draw(t, "type"),
			GPUs: rapid.IntRange(0, 16).Draw(t, "gpus"),
		})
	}
	curves := rapid.SliceOfN(rapid.Custom(drawCurve), 1, 4).Draw(t, "curves")
	for i := range rapid.IntRange(0, 14).Draw(t, "jobs") {
		s.Jobs = append(s.Jobs, drawJob(t, s, i, types, curves))
	}
	slices.SortStableFunc(s.Jobs, func(a, b policy.Job) int {
		switch {
		case a.Submit < b.Submit:
			return -1
		case a.Submit > b.Submit:
			return 1
		}
		return 0
	})
	return s
}

func drawJob(t *rapid.T, s *policy.Snapshot, i int, types []string, curves []speedup.Curve) policy.Job {
	low := rapid.IntRange(1, 6).Draw(t, "min")
	j := policy.Job{
		ID:          fmt.Sprint("j", i),
		Tenant:      rapid.SampledFrom([]string{"", "red", "blue"}).Draw(t, "tenant"),
		Type:        rapid.SampledFrom(types).Draw(t, "needs"),
		Weight:      rapid.SampledFrom([]float64{0, 1, 0.5, 10}).Draw(t, "weight"),
		Priority:    rapid.IntRange(0, 1).Draw(t, "priority") * 50,
		Submit:      rapid.Float64Range(0, s.Now).Draw(t, "submit"),
		Deadline:    rapid.SampledFrom([]float64{0, s.Now / 2, s.Now + 500, s.Now + 1e5}).Draw(t, "deadline"),
		Min:         low,
		Max:         low + rapid.IntRange(0, 20).Draw(t, "more"),
		Preferred:   rapid.IntRange(0, 20).Draw(t, "preferred"),
		PerWorker:   rapid.SampledFrom([]int{0, 1, 1, 1, 2, 4}).Draw(t, "per"),
		Preemptible: rapid.Bool().Draw(t, "preemptible"),
		Curve:       rapid.SampledFrom(curves).Draw(t, "curve"),
		Adapts:      rapid.Bool().Draw(t, "adapts"),
		Remaining:   rapid.SampledFrom([]float64{0, 1, 1e3, 1e7}).Draw(t, "remaining"),
	}
	if rapid.IntRange(0, 3).Draw(t, "sized") == 0 {
		j.Sizes = sizes.List(1, 2, 4, 8, 16, 32)
	}
	if rapid.Bool().Draw(t, "ran") {
		j.FirstStart = j.Submit
		j.Attained = rapid.Float64Range(0, 1e6).Draw(t, "attained")
		j.RunTime = rapid.Float64Range(0, 1e5).Draw(t, "run")
		j.LastChange = rapid.Float64Range(j.Submit, s.Now).Draw(t, "changed at")
		j.Resizes = rapid.IntRange(0, 9).Draw(t, "resizes")
		j.Done = rapid.Float64Range(0, 1e6).Draw(t, "done")
		// Not always within bounds: a user may have changed those.
		j.Count = rapid.IntRange(0, 24).Draw(t, "count")
	}
	return j
}

// variants are settings that take other paths than the defaults.
var variants = map[string][]string{
	"fifo":             {"strict=true"},
	"elastic-fifo":     {"efficiency=0.25"},
	"tiresias":         {`starvation=0, order="submit"`, "thresholds=[]"},
	"elastic-tiresias": {"compaction=0"},
	"ffdl":             {`method="greedy"`, `method="hull"`, `method="dp"`, "limit=0"},
	"pollux":           {"period=5"},
	"elasticflow":      {"powers_of_two=false"},
	"oasis":            {"slot=10, slots=3", "low=0.001, high=0.01"},
	"weighted-fair":    {"shares={red=3, blue=0.5}", "borrow=false, shares={red=3, green=2}"},
	"kolo":             {"fairness=0, patience=0", "explore=1.5, horizon=1e9"},
	"afs-l":            {"blind=true", "restart_cap=2", "always=true"},
}

func eachPolicy(t *testing.T, check func(t *testing.T, p policy.Policy)) {
	for _, name := range Policies.Names() {
		specs := []string{name}
		for _, v := range variants[name] {
			specs = append(specs, name+"("+v+")")
		}
		for _, spec := range specs {
			t.Run(spec, func(t *testing.T) {
				p, err := Policies.Parse(spec)
				if err != nil {
					t.Fatal(err)
				}
				check(t, p)
			})
		}
	}
}

// nextEvent is when something happens next: an arrival, the policy's wake-up (0
// is none), or the end of a running job; left is how many steps it has to go. It
// is +Inf where nothing will.
func nextEvent(s *policy.Snapshot, coming []policy.Job, wake float64, left func(*policy.Job) float64) float64 {
	next := math.Inf(1)
	if len(coming) > 0 {
		next = coming[0].Submit
	}
	if wake > 0 {
		next = min(next, wake)
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Count > 0 {
			next = min(next, s.Now+left(j)*j.Curve.Time(j.Count))
		}
	}
	return next
}

// audit checks what every decision must keep to: that it is valid, and more that
// only built-in policies promise.
func audit(t *rapid.T, s *policy.Snapshot, d *policy.Decision) {
	if err := policy.Validate(s, d); err != nil {
		t.Fatal(err)
	}
	capacity := map[string]int{}
	for _, n := range s.Nodes {
		capacity[n.Type] += n.GPUs
	}
	if len(d.Allocations) != len(s.Jobs) {
		t.Fatalf("%d allocations for %d jobs", len(d.Allocations), len(s.Jobs))
	}
	used, pinned := map[string]int{}, 0
	for i, a := range d.Allocations {
		j := &s.Jobs[i]
		if a.Job != j.ID {
			t.Fatalf("allocation %d is for %q, not %q", i, a.Job, j.ID)
		}
		if a.Reason == "" {
			t.Fatalf("job %s: no reason", a.Job)
		}
		if j.Count > 0 && !j.Preemptible {
			pinned += j.Min * max(j.PerWorker, 1)
		}
		if a.Count == 0 {
			continue
		}
		if a.Count < j.Min || a.Count > j.Max {
			t.Fatalf("job %s: %d is not within %d..%d", a.Job, a.Count, j.Min, j.Max)
		}
		if !j.Sizes.Contains(a.Count) {
			t.Fatalf("job %s: %d is not among %v", a.Job, a.Count, j.Sizes)
		}
		if j.Type != "" && a.Type != j.Type {
			t.Fatalf("job %s: given type %q, needs %q", a.Job, a.Type, j.Type)
		}
		used[a.Type] += a.Count * max(j.PerWorker, 1)
	}
	for typ, n := range used {
		if n > capacity[typ] {
			t.Fatalf("%d GPUs of type %q given, there are %d", n, typ, capacity[typ])
		}
	}
	if d.RequeueAt != 0 && !(d.RequeueAt > s.Now) {
		t.Fatalf("wake at %v, now is %v", d.RequeueAt, s.Now)
	}
	if len(d.State) > 4096+1024*len(s.Jobs) {
		t.Fatalf("state of %d bytes for %d jobs", len(d.State), len(s.Jobs))
	}
}

func TestPolicies_Invariants(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p policy.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawSnapshot(t)
			before := fmt.Sprint(s)
			d := p.Allocate(s)
			audit(t, s, &d)
			if again := p.Allocate(s); !reflect.DeepEqual(d, again) {
				t.Fatalf("two answers to one snapshot:\n%v\n%v", d, again)
			}
			if fmt.Sprint(s) != before {
				t.Fatal("the snapshot was changed")
			}
		})
	})
}

// TestPolicies_Sequences follows each policy through a random history, so
// that its own state is exercised: arrivals, completions, lost and added
// capacity, corrupt state.
func TestPolicies_Sequences(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p policy.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawSnapshot(t)
			for range 8 {
				d := p.Allocate(s)
				audit(t, s, &d)
				apply(s, &d)
				step := rapid.Float64Range(0, 5000).Draw(t, "step")
				progress(s, step)
				s.Changed = rapid.Bool().Draw(t, "event")
				if rapid.IntRange(0, 9).Draw(t, "break") == 0 {
					s.State = []byte(rapid.SampledFrom([]string{"", "{", "[]", "null", `{"queue":[7]}`}).Draw(t, "state"))
				}
				if len(s.Jobs) > 0 && rapid.Bool().Draw(t, "end") {
					i := rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "which")
					s.Jobs = slices.Delete(s.Jobs, i, i+1)
				}
				if len(s.Nodes) > 0 && rapid.Bool().Draw(t, "capacity") {
					i := rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")
					s.Nodes[i].GPUs = rapid.IntRange(0, 20).Draw(t, "gpus now")
				}
			}
		})
	})
}

// TestPolicies_PinnedJobsStay checks that jobs which must not be suspended
// keep their minimum as long as all such minima fit.
func TestPolicies_PinnedJobsStay(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p policy.Policy) {
		rapid.Check(t, func(t *rapid.T) {
			s := drawSnapshot(t)
			s.Nodes = append(s.Nodes, policy.Node{ID: "big", GPUs: 2000}, policy.Node{ID: "big1", Type: "a100", GPUs: 2000}, policy.Node{ID: "big2", Type: "h100", GPUs: 2000})
			d := p.Allocate(s)
			audit(t, s, &d)
			for i, a := range d.Allocations {
				j := &s.Jobs[i]
				var c candidate
				fit(&c, j, i)
				if c.low > 0 && j.Count > 0 && !j.Preemptible && a.Count == 0 {
					t.Fatalf("job %s was suspended: %s", a.Job, a.Reason)
				}
			}
		})
	})
}

func apply(s *policy.Snapshot, d *policy.Decision) {
	s.State = bytes.Clone(d.State)
	for i, a := range d.Allocations {
		j := &s.Jobs[i]
		if a.Count == j.Count {
			continue
		}
		j.Held, j.Count, j.LastChange = a.Type, a.Count, s.Now
		if j.FirstStart == 0 {
			j.FirstStart = s.Now
		} else {
			j.Resizes++
		}
	}
}

func progress(s *policy.Snapshot, step float64) {
	s.Now += step
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Count == 0 {
			continue
		}
		j.RunTime += step
		j.Attained += step * float64(j.Count*max(j.PerWorker, 1))
		j.Done += step / j.Curve.Time(j.Count)
	}
}

// TestSplit_OrderOfNodesDoesNotMatter guards determinism against map order.
func TestSplit_OrderOfNodesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		p, err := Policies.New(Default, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := p.Allocate(s)
		sort.SliceStable(s.Nodes, func(i, j int) bool { return s.Nodes[i].GPUs < s.Nodes[j].GPUs })
		if b := p.Allocate(s); !reflect.DeepEqual(a, b) {
			t.Fatalf("%v\n%v", a, b)
		}
	})
}
