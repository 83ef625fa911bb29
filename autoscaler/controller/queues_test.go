// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"fmt"
	"strings"
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

// pools returns the pools of a configuration whose pool "default" has these lines.
func (w *world) pools(lines string) map[string]config.Pool {
	w.t.Helper()
	c, err := config.Parse(map[string][]byte{"kolo.hcl": []byte("pool \"default\" {\n policy \"elastic-fifo\" {}\n" + lines + "\n}")})
	must.NoError(w.t, err)
	return c.Pools
}

// in registers an elastic job of one GPU per worker that names a queue.
func (w *world) in(queue, id string, least, most int) {
	w.nomad.Register(nomadtest.Job{ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": least, "queue": queue}}}})
}

// eventuallyReads waits for the reason that a user reads of a job.
func (w *world) eventuallyReads(a *Controller, id, reason string) {
	w.t.Helper()
	must.Wait(w.t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		for _, j := range a.Status().Jobs {
			if j.ID == id && strings.HasPrefix(j.Reason, reason) {
				return nil
			}
		}
		return fmt.Errorf("no job %s with reason %q: %+v", id, reason, a.Status().Jobs)
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// A queue gets its guarantee back from an elastic borrower, even from one that was resized
// just now and would otherwise keep its size for an hour.
func TestController_TakesAGuaranteeBack(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.Hold = time.Hour
	c.Pools = w.pools(`queue "a" { guarantee = 4 }
queue "b" { weight = 1 }`)
	w.start(c)
	w.watchful(8)
	w.in("b", "borrower", 1, 8)
	w.eventually(map[string]int{"borrower": 8})
	w.in("a", "entitled", 2, 4)
	w.eventually(map[string]int{"borrower": 4, "entitled": 4})
}

// A job that cannot be suspended waits while its minimum would use guarantees of others,
// and starts once the tree of queues allows it: a reload takes effect at once.
func TestController_WaitsForItsGuarantee(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools = w.pools(`queue "a" { guarantee = 6 }
queue "b" { weight = 1 }`)
	a, _ := w.start(c)
	w.in("b", "gang", 4, 8)
	w.eventuallyReads(a, "gang", "waits-for-guarantee: it is not preemptible, and its minimum of 4 slots would take what other queues are guaranteed")
	w.in("a", "a", 1, 4)
	w.eventually(map[string]int{"a": 4, "gang": 0})

	changed := *a.Config()
	changed.Pools = w.pools(`queue "a" { guarantee = 4 }
queue "b" { weight = 1 }`)
	must.NoError(t, a.Reload(&changed))
	w.eventually(map[string]int{"a": 4, "gang": 4})
}

// TestController_QueueLimits has a job for each limit, with the reason that its user sees.
func TestController_QueueLimits(t *testing.T) {
	w := newWorld(t, 4, 4)
	c := w.config()
	c.Pools = w.pools(`queue "limit" { limit = 3 }
queue "job" { max_job = 2 }
queue "jobs" { max_jobs = 1 }
queue "user" {
  per_namespace { limit = 2 }
}`)
	a, _ := w.start(c)
	w.in("limit", "limit-1", 1, 8)
	w.in("limit", "limit-2", 4, 8)
	w.in("job", "job-1", 1, 8)
	w.in("job", "job-2", 3, 8)
	w.in("jobs", "jobs-1", 1, 2)
	w.eventually(map[string]int{"jobs-1": 2})
	w.in("jobs", "jobs-2", 1, 2)
	w.in("user", "user-1", 1, 8)
	w.in("user", "user-2", 3, 8)
	w.eventually(map[string]int{"limit-1": 3, "job-1": 2, "jobs-1": 2, "user-1": 2})
	for id, reason := range map[string]string{
		"limit-2": `over-limit: its minimum is 4 slots, and the limit of queue "limit" is 3`,
		"job-2":   `over-limit: its minimum is 3 slots, and max_job of queue "job" is 2`,
		"jobs-2":  `over-limit: 1 jobs of queue "jobs" run, and its max_jobs is 1`,
		"user-2":  `over-limit: its minimum is 3 slots, and the limit of queue "user/default" is 2`,
	} {
		w.eventuallyReads(a, id, reason)
	}
	w.nomad.Purge("jobs-1")
	w.eventually(map[string]int{"jobs-2": 2})
}

// A job that ran for its queue's max_time is stopped, even if it must not be suspended. It
// stays stopped, also under the next leader, until its user registers it again.
func TestController_StopsAtMaxTime(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools = w.pools(`queue "a" {
  guarantee       = 8
  max_time        = "1h"
  max_time_action = "stop"
}`)
	c.Planner.Hold = time.Hour
	a, stop := w.start(c)
	w.in("a", "long", 1, 8)
	w.eventually(map[string]int{"long": 8})
	key := identity.JobKey{Namespace: "default", ID: "long"}
	a.mu.Lock()
	a.history.Jobs[key].RunTime = 3600
	a.mu.Unlock()
	reason := `over-limit: it ran for 1h0m0s, the max_time of queue "a", and is stopped; register it again to run it again`
	w.eventually(map[string]int{"long": 0})
	w.eventuallyReads(a, "long", reason)
	stop()

	next := w.config()
	next.Pools = c.Pools
	a, _ = w.start(next)
	w.eventuallyReads(a, "long", reason)
	w.in("a", "long", 1, 6)
	w.eventually(map[string]int{"long": 6})
}

// The slots of a paused job count for its queue.
func TestController_PausedJobsCountForTheirQueue(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.ManualHold = time.Hour
	c.Pools = w.pools(`queue "a" {
  guarantee = 4
  limit     = 4
}
queue "b" { guarantee = 4 }`)
	w.start(c)
	w.in("a", "a1", 1, 8)
	w.eventually(map[string]int{"a1": 4})
	must.NoError(t, w.nomad.Scale("a1", 3))
	w.in("a", "a2", 1, 8)
	w.in("b", "b1", 1, 8)
	w.eventually(map[string]int{"a1": 3, "a2": 1, "b1": 4})
}

// A plan with another configuration shows the effect of its queues, and changes nothing.
func TestController_ProposesOtherQueues(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, _ := w.start(w.config())
	w.in("a", "a1", 1, 8)
	w.in("b", "b1", 1, 8)
	w.eventually(map[string]int{"a1": 4, "b1": 4})
	pools := w.pools("queue \"a\" { guarantee = 6 }\nqueue \"b\" { limit = 2 }")
	out, err := a.Propose(t.Context(), "", pools)
	must.NoError(t, err)
	must.Len(t, 1, out)
	got := map[string]int{}
	for _, j := range out[0].Jobs {
		got[j.ID] = j.Want
	}
	must.Eq(t, map[string]int{"a1": 7, "b1": 1}, got)
	must.SliceEmpty(t, out[0].Ineligible)
	out, err = a.Propose(t.Context(), "", nil)
	must.NoError(t, err)
	must.Eq(t, 4, out[0].Jobs[0].Want)

	t.Log("a queue that no longer accepts the namespace of a job")
	out, err = a.Propose(t.Context(), "", w.pools("queue \"a\" {\n  namespaces = [\"another\"]\n  guarantee  = 6\n}\nqueue \"b\" { limit = 2 }"))
	must.NoError(t, err)
	must.Len(t, 1, out[0].Jobs)
	must.Len(t, 1, out[0].Ineligible)
	must.Eq(t, "a1", out[0].Ineligible[0].ID)
	must.StrContains(t, out[0].Ineligible[0].Problems[0], `queue "a" of node pool "default" does not accept jobs of namespace "default"`)
	w.eventually(map[string]int{"a1": 4, "b1": 4})
}

// In a divided pool, a new leader gives the reasons of its decisions, and not that nothing
// changed.
func TestController_ANewLeaderKnowsReasonsInADividedPool(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Pools = w.pools(`queue "a" { guarantee = 4 }
queue "b" { guarantee = 4 }`)
	pool := c.Pools["default"]
	pool.Policy = "kolo"
	c.Pools["default"] = pool
	_, stop := w.start(c)
	w.in("a", "a1", 1, 8)
	w.in("b", "b1", 1, 8)
	w.eventually(map[string]int{"a1": 4, "b1": 4})
	stop()
	next := w.config()
	next.Pools = c.Pools
	a, _ := w.start(next)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return a.Status().Leading }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	w.in("b", "b2", 8, 8) // its place in the status shows that the leader has decided
	w.eventuallyReads(a, "b2", "no-room: its minimum is 8 slots, and jobs that cannot be suspended leave 6 of the 8 slots of the pool")
	for _, j := range a.Status().Jobs {
		must.StrNotContains(t, j.Reason, "nothing changed", must.Sprint(j.ID))
	}
}

// refusing is an external policy that never decides.
type refusing struct{ policy.Policy }

func (refusing) TryAllocate(*policy.Snapshot) (policy.Decision, error) {
	return policy.Decision{}, errors.New("it is away")
}

// If a queue's external policy fails, that affects only this queue.
func TestController_AFailingPolicyOfAQueue(t *testing.T) {
	w := newWorld(t, 2, 4)
	fine, err := builtin.Policies.New("fifo", nil)
	must.NoError(t, err)
	c := w.config()
	c.Pools = w.pools(`queue "a" { guarantee = 4 }
queue "b" { guarantee = 4 }`)
	b := c.Pools["default"].Queues["b"]
	b.Policy = "mine"
	c.Pools["default"].Queues["b"] = b
	a, _ := w.startWith(c, external{refusing{fine}})
	w.in("b", "b1", 1, 8)
	w.in("a", "a1", 1, 8)
	w.eventually(map[string]int{"a1": 8, "b1": 0})
	w.eventuallyReads(a, "b1", "in-queue: keeps its size: policy fifo of its queue failed: it is away")
	must.Eq(t, "", a.Status().Pools[0].Problem)
}
