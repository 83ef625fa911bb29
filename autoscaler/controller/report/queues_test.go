// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// TestAddUse checks the use of queues, including the queues inside them, and how much of it
// is borrowed. Each worker has 3 slots.
func TestAddUse(t *testing.T) {
	jobs := []string{"x/1 a 50 1", "x/2 inner 50 2", "y/3 y 50 3", "x/4 inner 50 4"}
	for name, tc := range map[string]struct {
		pool string
		want []api.QueueUse
	}{
		"divided": {
			"queue \"a\" {\n guarantee = 7\n queue \"inner\" { guarantee = 2 }\n}\nqueue \"*\" { limit = 4 }",
			[]api.QueueUse{{Queue: "a", Used: 9, Borrowed: 2, Waiting: 1}, {Queue: "inner", Used: 6, Borrowed: 4, Waiting: 1}, {Queue: "*", Used: 3, Borrowed: 3}},
		},
		"bounded only": {`queue "a" { max_weight = 2 }`, []api.QueueUse{{Queue: "a", Used: 3}, {Queue: "*", Used: 9, Waiting: 1}}},
		"no queues":    {``, []api.QueueUse{{Queue: "*", Used: 12, Waiting: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := drawing(t, tc.pool, jobs...)
			r.View.Nodes = []planner.Node{{Pool: "gpu"}}
			for i, n := range []int{1, 2, 1, 0} {
				g := &r.View.Jobs[i].Groups[0]
				g.Count = n
				for range n {
					g.Live = append(g.Live, planner.Worker{Place: placement.Place{}})
				}
			}
			use := Status(r).Pools[0].Use
			for i := range use {
				use[i].Reasons, use[i].Entitled, use[i].Lent = nil, nil, 0 // TestAddEntitled
			}
			must.Eq(t, tc.want, use)
		})
	}
}

// A queue is entitled to its guarantee and its share of the remainder, as far as its jobs
// could use them. An unused part of the guarantee is lent if another queue borrows.
func TestAddEntitled(t *testing.T) {
	r := drawing(t, "queue \"a\" {\n guarantee = 12\n queue \"inner\" { guarantee = 2 }\n}\nqueue \"b\" { guarantee = 6 }\nqueue \"idle\" { guarantee = 3 }",
		"x/1 inner 50 1", "x/2 b 50 2", "x/3 b 50 3", "y/4 y 50 4")
	r.View.Nodes = []planner.Node{{Pool: "gpu", Bins: []planner.Bin{{Slots: 24}}}}
	for i, n := range []int{1, 3, 0, 0} { // in slots: 3, 9, 0, 0
		r.View.Jobs[i].Max = 8
		g := &r.View.Jobs[i].Groups[0]
		g.Count = n
		for range n {
			g.Live = append(g.Live, planner.Worker{Place: placement.Place{}})
		}
	}
	got := map[string]string{}
	sum := 0
	for _, u := range Status(r).Pools[0].Use {
		got[u.Queue] = fmt.Sprintf("lent %d, reasons %v", u.Lent, u.Reasons)
		must.NotNil(t, u.Entitled)
		if u.Queue != "inner" {
			sum += *u.Entitled
		}
		switch u.Queue {
		case "idle":
			must.Zero(t, *u.Entitled, must.Sprint("it could use none"))
		case "a":
			must.GreaterEq(t, 12, *u.Entitled)
		case "b":
			must.GreaterEq(t, 6, *u.Entitled)
		}
	}
	must.Eq(t, 24, sum)
	must.Eq(t, map[string]string{
		"a": "lent 9, reasons map[]", "inner": "lent 0, reasons map[]", "b": "lent 0, reasons map[in-queue:1]", "idle": "lent 3, reasons map[]", "*": "lent 0, reasons map[in-queue:1]",
	}, got)
}

// The status and the metrics show the borrowed slots over time of a queue with a half-life,
// and the budget of a queue with one.
func TestAddPast(t *testing.T) {
	r := drawing(t, `half_life = "24h"
queue "a" {
  budget {
    slot_hours = 100
    beyond     = "stop"
  }
  queue "forgets" { half_life = "0s" }
}
queue "hidden" { namespaces = ["secret"] }`, "x/1 a 50 1")
	r.Now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	r.History = history.New()
	r.History.Ledger("gpu")[queue.Key("a")] = &ledger.Account{HalfLife: 86400, Mean: 2 * math.Ln2, Spent: 12.5}
	r.History.Ledger("gpu")[queue.Key("forgets")] = &ledger.Account{Mean: 1, Spent: 1}
	must.Nil(t, Status(r).Pools[0].Use[0].Budget, must.Sprint("another one leads"))
	r.Leading = true
	s := Status(r)
	a, forgets, other := s.Pools[0].Use[0], s.Pools[0].Use[1], s.Pools[0].Use[3]
	must.InDelta(t, 48, *a.Decayed, 1e-9)
	must.Eq(t, &api.BudgetUse{SlotHours: 100, Used: 12.5, Per: "month", Beyond: "stop", Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}, a.Budget)
	must.Eq(t, api.QueueUse{Queue: "forgets", Entitled: forgets.Entitled}, forgets)
	must.Nil(t, other.Decayed)
	must.Nil(t, other.Budget)
	must.Eq(t, 86400, s.Pools[0].Queues[0].HalfLife)

	series := func(sees func(identity.JobKey) bool) (out []string) {
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(&gathered{s, sees})
		families, err := reg.Gather()
		must.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if l := m.GetLabel(); strings.HasPrefix(f.GetName(), "kolo_queue_") {
					out = append(out, fmt.Sprintf("%s %s %s %.1f", f.GetName(), l[0].GetValue(), l[1].GetValue(), m.GetGauge().GetValue()))
				}
			}
		}
		return out
	}
	all := series(func(identity.JobKey) bool { return true })
	for _, want := range []string{
		"kolo_queue_borrowed_slot_hours gpu a 48.0", "kolo_queue_borrowed_slot_hours gpu hidden 0.0",
		"kolo_queue_budget_slot_hours gpu a 100.0", "kolo_queue_budget_used_slot_hours gpu a 12.5",
		fmt.Sprintf("kolo_queue_slots_used gpu a %d.0", s.Pools[0].Use[0].Used), fmt.Sprintf("kolo_queue_slots_used gpu * %d.0", other.Used),
		fmt.Sprintf("kolo_queue_slots_borrowed gpu * %d.0", other.Borrowed), "kolo_queue_slots_guaranteed gpu a 0.0",
	} {
		must.SliceContains(t, all, want)
	}
	must.Len(t, 4+3*4, all, must.Sprint("slots of a, forgets, hidden and *"))
	for _, one := range series(func(k identity.JobKey) bool { return k.Namespace == "default" }) {
		must.StrNotContains(t, one, "hidden")
	}
	must.SliceEmpty(t, series(func(identity.JobKey) bool { return false }))
}

// gathered is a collector of the gauges of jobs and queues.
type gathered struct {
	s    *api.Status
	sees func(identity.JobKey) bool
}

func (g *gathered) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range JobDescs {
		ch <- d
	}
}

func (g *gathered) Collect(ch chan<- prometheus.Metric) { JobGauges(ch, g.s, false, g.sees) }
