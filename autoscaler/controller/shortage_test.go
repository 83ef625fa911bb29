// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

func everyone(planner.JobKey) bool { return true }

// TestController_ExportsWhatIsMissing is about a full pool with a job that waits: what
// it lacks, and nothing once it is paused or has room.
func TestController_ExportsWhatIsMissing(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	shows := func(want ...string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
			if got := gathered(t, a); !slices.Equal(got, want) {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		}), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
	}
	w.job("a", 3, 4)
	w.eventually(map[string]int{"a": 4})
	shows("nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 0", "nodes_wanted /default/waiting 0", "slots_wanted /default/ 0")

	w.job("b", 2, 8)
	full := []string{
		"nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 0", "nodes_wanted /default/waiting 2",
		"slots_wanted /default/ 0", "slots_wanted /default/default 8",
	}
	shows(full...)
	b := planner.JobKey{Namespace: "default", ID: "b"}
	must.NoError(t, a.SetPaused(t.Context(), "a test", b, true))
	shows("nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 0", "nodes_wanted /default/waiting 0", "slots_wanted /default/ 0")
	must.NoError(t, a.SetPaused(t.Context(), "a test", b, false))
	shows(full...)

	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
	shows("nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 1", "nodes_wanted /default/waiting 0",
		"slots_wanted /default/ 0", "slots_wanted /default/default 4")
}

// gathered are the metrics for who adds nodes: name, labels by their names, value.
func gathered(t *testing.T, a *Controller) []string {
	t.Helper()
	jobs := prometheus.NewPedanticRegistry()
	jobs.MustRegister(a.JobMetrics(everyone))
	families, err := prometheus.Gatherers{a.Registry(), jobs}.Gather()
	must.NoError(t, err)
	var out []string
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "kolo_")
		if !strings.HasPrefix(name, "nodes") && name != "slots_wanted" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out = append(out, fmt.Sprint(name, " ", strings.Join(labels, "/"), " ", m.GetGauge().GetValue()))
		}
	}
	slices.Sort(out)
	return out
}

// TestDescribeShortage is about levels, and workers of several slots.
func TestDescribeShortage(t *testing.T) {
	v := racks(t, spreadJob("a"), spreadJob("b"))
	for j := range v.Jobs {
		v.Jobs[j].Min, v.Jobs[j].Max = 1, 8
		v.Jobs[j].Groups = []planner.Group{{Name: "g", Max: 8, Need: placement.Need{Slots: 2}, Class: &planner.Class{Places: []placement.Place{{Node: 0}}}}}
		v.Facts[j].Spec = &jobspec.Spec{}
	}
	v.Jobs[1].Locality = &planner.Locality{Rule: placement.Rule{Within: 1}, Level: "meta.rack"}
	for i := range v.Nodes {
		v.Nodes[i].NodeClass = "a100"
	}
	s := &api.Status{Pools: []api.PoolStatus{{Name: "gpu"}}, Jobs: make([]api.JobStatus, 2)}
	describeShortage(s, v, make([]planner.Want, 2), []int{3, 4}, &planner.Plan{}, time.Unix(1_800_000_000, 0))
	must.Eq(t, &api.Lack{Slots: 6}, s.Jobs[0].Lacks)
	must.Eq(t, &api.Lack{Slots: 8, Level: "meta.rack"}, s.Jobs[1].Lacks)
	must.Eq(t, []api.Lack{{Slots: 6}, {Slots: 8, Level: "meta.rack"}}, s.Pools[0].Lacks)
	// Two of a's workers find room; the third shares a node with b's.
	must.Eq(t, []api.NodeClass{{Class: "a100", Nodes: 3, Idle: 3, Waiting: 3}}, s.Pools[0].Nodes)
}

// TestSlotsWanted is about names that jobs choose: none is shown to those who may
// not see the job, nor more than a bound, and the sum stays.
func TestSlotsWanted(t *testing.T) {
	s := &api.Status{Pools: []api.PoolStatus{{Name: "gpu"}, {Name: "idle"}}}
	for i := range 3 * namedQueues {
		s.Jobs = append(s.Jobs, api.JobStatus{
			JobKey: planner.JobKey{Namespace: "default", ID: strconv.Itoa(i)}, Pool: "gpu", Queue: fmt.Sprintf("q\"\n%d", i), Lacks: &api.Lack{Slots: 1 + i},
		})
	}
	total := 3 * namedQueues * (3*namedQueues + 1) / 2
	sum := func(m map[wantedKey]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	all := slotsWanted(s, everyone)
	must.Eq(t, total, sum(all))
	must.Eq(t, namedQueues+2, len(all)) // those without a name, and the idle pool
	must.Eq(t, 3*namedQueues, all[wantedKey{pool: "gpu", queue: fmt.Sprintf("q\"\n%d", 3*namedQueues-1)}])
	must.Eq(t, map[wantedKey]int{{pool: "gpu"}: total, {pool: "idle"}: 0}, slotsWanted(s, func(planner.JobKey) bool { return false }))
}

// TestWithRoom has every policy decide for a pool with more room than there is: jobs
// get their most, as far as the room goes, and the snapshot stays.
func TestWithRoom(t *testing.T) {
	for _, name := range builtin.Policies.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := builtin.Policies.New(name, nil)
			must.NoError(t, err)
			s := &policy.Snapshot{Now: 1000, Seed: 1, Changed: true, Nodes: []policy.Node{{ID: "a", GPUs: 4, Free: 4}}}
			for i := range 3 {
				s.Jobs = append(s.Jobs, policy.Job{
					ID: fmt.Sprint("default/", i), Tenant: "default", Weight: 1, Priority: 50, Submit: 900, Min: 4, Max: 8, Preferred: 4, PerWorker: 1,
				})
			}
			d, err := allocate(p, withRoom(s))
			must.NoError(t, err)
			for _, a := range d.Allocations {
				must.Positive(t, a.Count, must.Sprint(a.Job, ": ", a.Reason))
			}
			must.Len(t, 1, s.Nodes)
		})
	}
	empty := withRoom(&policy.Snapshot{Jobs: []policy.Job{{Max: 100_000, PerWorker: 1024}}})
	must.Eq(t, []policy.Node{{ID: "room ", GPUs: leastAmple, Free: leastAmple}}, empty.Nodes)
	types := withRoom(&policy.Snapshot{Nodes: []policy.Node{{Type: "b", GPUs: 4000}, {Type: "a", GPUs: 1}}, Jobs: []policy.Job{{Max: 5000}}})
	must.True(t, slices.Equal([]policy.Node{{ID: "room a", Type: "a", GPUs: leastAmple, Free: leastAmple}, {ID: "room b", Type: "b", GPUs: 4000, Free: 4000}}, types.Nodes[2:]))
}

// TestAmple_AsksSeldom states that the question costs a share of the time, and that
// an answer to be asked for later is waited for.
func TestAmple_AsksSeldom(t *testing.T) {
	w := newWorld(t, 0, 0)
	c, err := New(w.config(), nil, hclog.NewNullLogger())
	must.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	asked := 0
	p := &poolPolicy{policy: counting{&asked}, last: &request{snap: &policy.Snapshot{}}, fingerprint: 1}
	c.cfg.Planner.Tick = time.Minute
	must.Eq(t, time.Time{}, c.askAmple("gpu", p, now))
	must.Eq(t, 1, asked)
	must.Eq(t, time.Time{}, c.askAmple("gpu", p, now.Add(59*time.Second))) // nothing has changed
	must.Eq(t, 1, asked)
	must.Eq(t, time.Time{}, c.askAmple("gpu", p, now.Add(time.Minute)))
	must.Eq(t, 2, asked)
	p.fingerprint, p.ample.took = 2, time.Second
	must.Eq(t, now.Add(80*time.Second), c.askAmple("gpu", p, now.Add(61*time.Second)))
	must.Eq(t, 2, asked)
	must.Eq(t, time.Time{}, c.askAmple("gpu", p, now.Add(80*time.Second)))
	must.Eq(t, 3, asked)
}

// counting is a policy that counts how often it is asked.
type counting struct{ n *int }

func (counting) Name() string { return "counting" }

func (c counting) Allocate(*policy.Snapshot) policy.Decision {
	*c.n++
	return policy.Decision{}
}
