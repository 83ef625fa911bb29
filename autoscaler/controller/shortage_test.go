// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

func everyone(identity.JobKey) bool { return true }

// A job waits in a full pool. The metrics show the slots that it lacks, until the job is
// paused or has room.
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
	b := identity.JobKey{Namespace: "default", ID: "b"}
	must.NoError(t, a.SetPaused(t.Context(), "a test", b, true))
	shows("nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 0", "nodes_wanted /default/waiting 0", "slots_wanted /default/ 0")
	must.NoError(t, a.SetPaused(t.Context(), "a test", b, false))
	shows(full...)

	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
	shows("nodes /default 1", "nodes_idle /default 0", "nodes_wanted /default/growing 1", "nodes_wanted /default/waiting 0",
		"slots_wanted /default/ 0", "slots_wanted /default/default 4")
}

// gathered returns the metrics for a cluster autoscaler: name, labels by their names, value.
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

// Every policy decides for a pool with more room than it has. Jobs get their maximum as far
// as the room allows, and the snapshot is not changed.
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

// TestAmple_AsksSeldom: the question uses a bounded share of the time, and ample returns
// when to ask again.
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
