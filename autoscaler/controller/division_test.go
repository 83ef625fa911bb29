// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// TestReserve_Divided draws a pool of 12 slots, of which queue a is guaranteed 8 and queue b
// 4. An elastic job of priority 50 holds all that others leave.
func TestReserve_Divided(t *testing.T) {
	conf, err := config.Parse(map[string][]byte{"kolo.hcl": []byte(`pool "p" {
  policy "fifo" {}
  queue "a" {
    namespaces = ["a"]
    guarantee  = 8
  }
  queue "b" {
    namespaces = ["b"]
    guarantee  = 4
    budget {
      slot_hours = 100
      per        = "month"
      beyond     = "borrow"
    }
  }
}`)})
	must.NoError(t, err)
	waits := func(ns string, priority, slots int) cluster.Blocked {
		return cluster.Blocked{Key: identity.JobKey{Namespace: ns, ID: fmt.Sprint("waits-", slots)}, Pool: "p", Queue: ns, Priority: priority, Workers: slots, Slots: slots, Worker: 1}
	}
	for name, tc := range map[string]struct {
		elastic string // queue of the elastic job
		least   int
		rigid   int     // slots that a rigid job of queue b holds
		spent   float64 // slot-hours of queue b's budget
		blocked []cluster.Blocked
		want    []int
		reads   string // of the first
	}{
		"another queue's, within the guarantee":        {"a", 2, 0, 0, []cluster.Blocked{waits("b", 50, 3)}, []int{3}, "3 slots are kept free for it"},
		"priority does not count between queues":       {"a", 2, 0, 0, []cluster.Blocked{waits("b", 1, 3)}, []int{3}, ""},
		"another queue's, beyond the guarantee":        {"a", 2, 0, 0, []cluster.Blocked{waits("b", 90, 7)}, []int{4}, `it needs 7 slots, and elastic jobs make room for 4: queue "b" is entitled to 4 slots now, including those that its jobs need`},
		"what its queue holds already counts":          {"a", 2, 3, 0, []cluster.Blocked{waits("b", 90, 7)}, []int{1}, `queue "b" is entitled to 4 slots`},
		"its queue holds all of it":                    {"a", 2, 4, 0, []cluster.Blocked{waits("b", 90, 7)}, []int{0}, `elastic jobs make room for 0`},
		"a queue that has spent its budget":            {"a", 2, 0, 100, []cluster.Blocked{waits("b", 90, 7)}, []int{0}, `queue "b" is entitled to 0 slots`},
		"two of one queue":                             {"a", 2, 0, 0, []cluster.Blocked{waits("b", 90, 3), waits("b", 50, 2)}, []int{3, 1}, ""},
		"its own queue's jobs shrink to their minimum": {"b", 1, 0, 0, []cluster.Blocked{waits("b", 50, 12)}, []int{11}, ""},
		"and by priority":                              {"b", 1, 0, 0, []cluster.Blocked{waits("b", 49, 12)}, []int{0}, "elastic jobs can spare 0"},
		"not below the minimum of another queue's":     {"a", 10, 0, 0, []cluster.Blocked{waits("b", 90, 4)}, []int{2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := &cluster.View{Facts: []cluster.Facts{{Observation: history.Observation{Slots: 1}, Queue: tc.elastic}}, Blocked: tc.blocked}
			v.Nodes = []planner.Node{{Pool: "p", Bins: []planner.Bin{{Slots: 12 - tc.rigid}}}}
			v.Jobs = []planner.Job{{Key: identity.JobKey{Namespace: tc.elastic, ID: "elastic"}, Pool: "p", Min: tc.least, Max: 12, Priority: 50, Groups: []planner.Group{{Count: 12 - tc.rigid}}}}
			if tc.rigid > 0 {
				v.Rigid = []cluster.Rigid{{Key: identity.JobKey{Namespace: "b", ID: "rigid"}, Pool: "p", Queue: "b", Slots: tc.rigid}}
			}
			h := history.New()
			h.Queues["p"] = ledger.Ledger{queue.Key("b"): {Spent: tc.spent}}
			l := loans{divided: divide(v, conf.Pool, h, time.Now())}
			l.reserve(v, time.Now())
			var got []int
			for _, b := range v.Blocked {
				got = append(got, b.Room)
			}
			must.Eq(t, tc.want, got)
			must.StrContains(t, v.Blocked[0].Sentence, tc.reads)
			sum := 0
			for _, f := range rigidSlots(v, "p") {
				must.Eq(t, policy.Fixed{Queue: "b", Namespace: "b", Slots: f.Slots}, f)
				sum += f.Slots
			}
			must.Eq(t, tc.rigid+v.Reserved["p"], sum)
		})
	}
}

// A borrower shrinks for a job without a kolo block only within the entitlement of that
// job's queue. Beyond it, the job waits, and its user sees the reason.
func TestController_MakesRoomWithinTheEntitlement(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.PlacementTimeout = time.Minute
	c.Pools = w.pools(`queue "a" { guarantee = 6 }
queue "b" {
  namespaces = ["default"]
  guarantee  = 2
}`)
	a, _ := w.start(c)
	w.in("a", "borrower", 1, 8)
	w.eventually(map[string]int{"borrower": 8})
	w.nomad.Register(nomadtest.Job{ID: "plain", Count: 5, Max: 5, GPUs: 1, CPU: 100, Priority: 90})
	w.eventually(map[string]int{"borrower": 6})
	var got api.BlockedJob
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		s := a.Status()
		if len(s.Blocked) != 1 || s.Blocked[0].Workers != 3 || s.Pools[0].Use[1].Used != 2 {
			return fmt.Errorf("%+v %+v", s.Blocked, s.Pools)
		}
		got = s.Blocked[0]
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.Eq(t, api.BlockedJob{
		JobKey: identity.JobKey{Namespace: "default", ID: "plain"}, Pool: "default", Queue: "b", Workers: 3, Slots: 3, Reason: waiting.NoRoom,
		Sentence: `it needs 3 slots, and elastic jobs make room for 0: queue "b" is entitled to 2 slots now, including those that its jobs need`,
	}, got)
	w.eventually(map[string]int{"borrower": 6})
}
