// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// TestWhy checks the reason and the sentence of a job without workers.
func TestWhy(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		job      planner.Job
		paused   bool
		want     planner.Want
		wait     planner.Wait
		reason   waiting.Reason
		sentence string
	}{
		"paused":            {job: planner.Job{HoldReason: "paused by a user"}, paused: true, want: planner.Want{Wait: waiting.InQueue}, reason: waiting.Paused, sentence: "paused by a user"},
		"held":              {job: planner.Job{HoldReason: "a write failed"}, reason: waiting.Held, sentence: "a write failed"},
		"set by hand":       {job: planner.Job{ManualUntil: now.Add(1)}, reason: waiting.Held, sentence: "a user set the count by hand"},
		"the planner's":     {want: planner.Want{Count: 2, Reason: "starts"}, wait: planner.Wait{Reason: waiting.Fragmented, Why: "needs room"}, reason: waiting.Fragmented, sentence: "needs room"},
		"being started":     {want: planner.Want{Count: 2, Reason: "starts with 2"}, reason: waiting.Settling, sentence: "starts with 2"},
		"the policy's":      {want: planner.Want{Wait: waiting.InQueue, Reason: "waits for free GPUs"}, reason: waiting.InQueue, sentence: "waits for free GPUs"},
		"the queue's":       {want: planner.Want{Wait: waiting.OverLimit, Reason: "over-limit: its minimum is 3"}, reason: waiting.OverLimit, sentence: "its minimum is 3"},
		"not known":         {want: planner.Want{Reason: "because"}, reason: waiting.Unknown, sentence: "because"},
		"no decision yet":   {reason: waiting.Unknown},
		"not the planner's": {want: planner.Want{Count: 2}, wait: planner.Wait{Why: "for now"}, reason: waiting.Unknown, sentence: "for now"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Round{Now: now, View: &cluster.View{}, Wants: []planner.Want{tc.want}, Jobs: []Job{{Paused: tc.paused}}}
			r.View.Jobs = []planner.Job{tc.job}
			reason, sentence := why(r, 0, &tc.wait)
			must.Eq(t, tc.reason, reason)
			must.Eq(t, tc.sentence, sentence)
		})
	}
}

// drawing is a round with jobs that wait, one in each field: "namespace/id queue priority
// arrival", with the seconds that it ran if it ran before.
func drawing(t *testing.T, pool string, jobs ...string) *Round {
	c, err := config.Parse(map[string][]byte{"kolo.hcl": []byte("pool \"gpu\" {\n" + pool + "\n}")})
	must.NoError(t, err)
	r := &Round{Config: c, Now: time.Unix(1_800_000_000, 0), View: &cluster.View{}, Plan: &planner.Plan{}, History: history.New()}
	for _, text := range jobs {
		var name, queue string
		var priority, arrival, ran int
		n, _ := fmt.Sscan(text, &name, &queue, &priority, &arrival, &ran)
		must.GreaterEq(t, 4, n)
		namespace, id, _ := strings.Cut(name, "/")
		j := planner.Job{Key: identity.JobKey{Namespace: namespace, ID: id}, Pool: "gpu", Min: 2, Max: 4, Groups: []planner.Group{{Need: placement.Need{Slots: 3}}}, Started: ran > 0}
		r.View.Jobs = append(r.View.Jobs, j)
		r.View.Facts = append(r.View.Facts, cluster.Facts{
			Spec: &jobspec.Spec{Queue: queue, Priority: priority}, Queue: c.Pool("gpu").QueueOf(namespace, queue), Observation: history.Observation{Slots: 3},
		})
		r.Jobs = append(r.Jobs, Job{Job: &history.Job{FirstSeen: r.Now.Add(time.Duration(arrival) * time.Second), RunTime: float64(ran), LastChange: r.Now}})
		r.Wants = append(r.Wants, planner.Want{Wait: waiting.InQueue, Reason: "in-queue: later"})
	}
	return r
}

// TestJobsWaiting checks the view of a reader that may see only some jobs.
func TestJobsWaiting(t *testing.T) {
	r := drawing(t, "queue \"a\" { guarantee = 2 }", "x/1 a 50 1", "y/2 a 50 2", "x/3 x 50 3", "x/4 other 50 4", "y/5 y 50 5", "x/6 a 50 6")
	r.View.Nodes = []planner.Node{{Pool: "gpu"}}
	r.Wants[0] = planner.Want{Wait: waiting.OverLimit}
	r.View.Jobs[5].Groups[0].Count = 1
	s := Status(r)
	must.Eq(t, map[waitsKey]int{
		{"gpu", "a", waiting.OverLimit}: 1, {"gpu", "*", waiting.InQueue}: 2, {"gpu", "", waiting.InQueue}: 2,
	}, jobsWaiting(s, func(key identity.JobKey) bool { return key.Namespace == "x" }))
	must.Eq(t, map[waitsKey]int{
		{"gpu", "a", waiting.OverLimit}: 1, {"gpu", "a", waiting.InQueue}: 1, {"gpu", "*", waiting.InQueue}: 3,
	}, jobsWaiting(s, func(identity.JobKey) bool { return true }))
}

// TestAddWaits checks the queues and the positions of jobs that wait: "queue position id".
func TestAddWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		pool string
		jobs []string
		want []string
	}{
		"an undivided pool has one line of jobs":   {`share = "none"`, []string{"a/1 a 50 1", "b/2 b 50 2", "b/3 b 70 3"}, []string{"* 2 1", "* 3 2", "* 1 3"}},
		"each namespace of a pool without queues":  {``, []string{"a/1 a 50 1", "b/2 b 50 2", "b/3 b 70 3"}, []string{"* 1 1", "* 2 2", "* 1 3"}},
		"queues that only bound what jobs request": {`queue "a" { max_priority = 60 }`, []string{"a/1 a 50 1", "b/2 b 50 2"}, []string{"a 1 1", "* 2 2"}},
		"in order of arrival, and of name":         {`share = "none"`, []string{"a/1 a 50 2", "a/2 a 50 1", "b/0 b 50 2"}, []string{"* 2 1", "* 1 2", "* 3 0"}},
		"each queue is a line": {
			"queue \"a\" { guarantee = 2 }\nqueue \"b\" { guarantee = 2 }", []string{"x/1 a 50 1", "x/2 b 50 2", "x/3 a 50 3"}, []string{"a 1 1", "b 1 2", "a 2 3"},
		},
		"each namespace outside of queues": {`queue "a" { guarantee = 2 }`, []string{"x/1 x 50 1", "y/2 y 50 2", "x/3 x 50 3"}, []string{"* 1 1", "* 1 2", "* 2 3"}},
		"each namespace of a queue of users": {
			"queue \"u\" {\n namespaces = [\"x\", \"y\"]\n per_namespace { limit = 2 }\n}", []string{"x/1 x 50 1", "y/2 y 50 2", "x/3 x 50 3"}, []string{"u 1 1", "u 1 2", "u 2 3"},
		},
		"behind the others after its time": {
			`queue "a" { max_time = "1m" }`, []string{"x/1 a 90 1 60", "x/2 a 50 2 59", "x/3 a 40 3"}, []string{"a 3 1", "a 1 2", "a 2 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := drawing(t, tc.pool, tc.jobs...)
			r.View.Nodes = []planner.Node{{Pool: "gpu"}}
			forecast := api.Expected{Made: r.Now.Add(time.Hour), Earliest: r.Now.Add(2 * time.Hour)}
			r.Expected = map[identity.JobKey]api.Expected{r.View.Jobs[0].Key: forecast}
			s := Status(r)
			must.Eq(t, &forecast, s.Jobs[0].Waits.Expected)
			must.Nil(t, s.Jobs[1].Waits.Expected)
			var got []string
			for i := range s.Jobs {
				w := s.Jobs[i].Waits
				got = append(got, fmt.Sprint(w.Queue, " ", w.Position, " ", s.Jobs[i].ID))
				must.Eq(t, 6, w.Slots)
				since := s.Jobs[i].Seen
				if s.Jobs[i].State == api.StateSuspended {
					since = r.Now
				}
				must.Eq(t, since, w.Since)
			}
			must.Eq(t, tc.want, got)
		})
	}
}
