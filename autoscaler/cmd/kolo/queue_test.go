// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// shared is the status of an autoscaler with a pool that is divided, and one that is not.
func shared() api.Status {
	at := time.Date(2026, 11, 27, 9, 30, 0, 0, time.UTC)
	job := func(namespace, id, pool, queue string, position, slots int, reason waiting.Reason, sentence string) api.JobStatus {
		return api.JobStatus{
			JobKey: identity.JobKey{Namespace: namespace, ID: id}, Pool: pool,
			Waits: &api.Waits{Reason: reason, Sentence: sentence, Queue: queue, Position: position, Slots: slots, Since: at.Add(time.Duration(slots) * time.Minute)},
		}
	}
	starts := func(j api.JobStatus, earliest, latest time.Duration) api.JobStatus {
		j.Waits.Expected = &api.Expected{Made: at, Earliest: at.Add(earliest)}
		if latest > 0 {
			j.Waits.Expected.Latest = at.Add(latest)
		}
		return j
	}
	return api.Status{
		Autoscaler: "host-1", Ready: true,
		Pools: []api.PoolStatus{{
			Name: "gpu", Policy: "kolo", Capacity: 16, Used: 15,
			Queues: []api.QueueStatus{
				{Name: "*", Limit: 4}, {Name: "courses", Guarantee: 4, Limit: 8}, {Name: "research", Guarantee: 8},
				{Name: "speech", Parent: "research", Guarantee: 2}, {Name: "vision", Parent: "research"},
			},
			Use: []api.QueueUse{
				{Queue: "courses", Used: 4, Waiting: 1}, {Queue: "research", Used: 9, Borrowed: 1, Waiting: 3}, {Queue: "speech", Used: 2, Waiting: 1},
				{Queue: "vision", Used: 7, Borrowed: 7, Waiting: 1}, {Queue: "*", Used: 2, Borrowed: 2},
			},
		}, {Name: "lab", Policy: "fifo", Capacity: 1, Use: []api.QueueUse{{Queue: "*"}}}},
		Jobs: []api.JobStatus{
			job("research", "paused", "gpu", "research", 0, 1, waiting.Paused, "paused by a user"),
			starts(job("research", "first", "gpu", "research", 1, 2, waiting.NoRoom, `its minimum is 2 slots, and queue "research" may use 1 now`), 20*time.Minute, 15*time.Hour),
			job("research", "image\x1b[2K", "gpu", "vision", 1, 4, waiting.InQueue, "other jobs gain more from the GPUs for now"),
			starts(job("research", "words", "gpu", "speech", 1, 3, waiting.Unknown, ""), time.Hour, 0),
			starts(job("courses", "exercise", "gpu", "courses", 1, 1, waiting.WaitsForGuarantee, "it is not preemptible"), time.Second, 30*time.Minute),
			{JobKey: identity.JobKey{Namespace: "research", ID: "runs"}, Pool: "gpu", Running: 4},
		},
	}
}

func TestQueue(t *testing.T) {
	status := shared()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { must.NoError(t, json.NewEncoder(w).Encode(status)) }))
	t.Cleanup(s.Close)
	run := func(args ...string) (int, string) {
		ui := cli.NewMockUi()
		code := (&queueCommand{apiCommand{meta: meta{UI: ui}}}).Run(append([]string{"-address", s.URL}, args...))
		return code, ui.OutputWriter.String() + ui.ErrorWriter.String()
	}
	code, out := run()
	must.Eq(t, 0, code)
	must.Eq(t, `Pool gpu with kolo: 15 of 16 slots used

Queue     Guarantee  Limit  Used  Borrowed  Waiting
courses   4          8      4     0         1
research  8          -      9     1         3
  speech  2          -      2     0         1
  vision  -          -      7     7         1
*         -          -      2     2         0

Queue     #  Job        Namespace  Slots  Waiting since        Expected start            Why
courses   1  exercise   courses    1      2026-11-27 09:31:00  09:30 – 10:00             waits-for-guarantee: it is not preemptible
research  1  first      research   2      2026-11-27 09:32:00  09:50 – 2026-11-28 00:30  no-room: its minimum is 2 slots, and queue "research" may use 1 now
research  -  paused     research   1      2026-11-27 09:31:00  unknown                   paused: paused by a user
speech    1  words      research   3      2026-11-27 09:33:00  not before 10:30          unknown
vision    1  image�[2K  research   4      2026-11-27 09:34:00  unknown                   in-queue: other jobs gain more from the GPUs for now

Pool lab with fifo: 0 of 1 slot used

Queue  Guarantee  Limit  Used  Borrowed  Waiting
*      -          -      0     0         0

no job waits
`, out)

	must.StrContains(t, drawJob(&api.Job{Job: &status.Jobs[3]}), "Expected start  not before 10:30")

	_, out = run("-queue", "research", "-pool", "gpu")
	must.StrContains(t, out, "research  8          -      9     1         3\n  speech  2")
	must.StrNotContains(t, out, "courses")
	must.StrNotContains(t, out, "Pool lab")
	_, out = run("-queue", "vision")
	must.StrContains(t, out, "\nvision  -")
	must.StrNotContains(t, out, "words")

	code, out = run("-json", "-queue", "vision")
	must.Eq(t, 0, code)
	var got []map[string]any
	must.NoError(t, json.Unmarshal([]byte(out), &got))
	must.Len(t, 1, got)
	must.Eq(t, any([]any{map[string]any{
		"namespace": "research", "id": "image\x1b[2K", "reason": "in-queue", "sentence": "other jobs gain more from the GPUs for now",
		"queue": "vision", "position": 1.0, "slots": 4.0, "since": "2026-11-27T09:34:00Z",
	}}), got[0]["jobs"])
	must.Eq(t, any([]any{map[string]any{"name": "vision", "parent": "research", "used": 7.0, "borrowed": 7.0, "waiting": 1.0}}), got[0]["queues"])

	for args, want := range map[[2]string]string{
		{"-pool", "cpu"}:   `there is no node pool "cpu"; there is gpu, lab`,
		{"-queue", "sale"}: `there is no queue "sale"; there is *, courses, research, speech, vision`,
	} {
		code, out := run(args[0], args[1])
		must.Eq(t, 1, code)
		must.StrContains(t, out, want)
	}
	code, out = run("-queu", "x")
	must.Eq(t, exitUsage, code)
	must.StrContains(t, out, `did you mean "-queue"?`)

	status.Problem = "refused"
	_, out = run("-json")
	must.StrContains(t, out, "Nomad could not be read, so this may be old: refused")
	status.Ready = false
	code, out = run()
	must.Eq(t, 1, code)
	must.StrContains(t, out, "host-1 is still reading the cluster's state")
	status = api.Status{Ready: true}
	_, out = run()
	must.Eq(t, "there are no nodes\n", out)
}

// Queues with a half-life or a budget have columns for them.
func TestQueue_OverTime(t *testing.T) {
	status := shared()
	decayed, none := 1234.56, 0.0
	use := status.Pools[0].Use
	use[0].Decayed, use[1].Decayed = &decayed, &none
	use[1].Budget = &api.BudgetUse{SlotHours: 5000, Used: 4999.96, Per: "month", Beyond: "borrow", Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { must.NoError(t, json.NewEncoder(w).Encode(status)) }))
	t.Cleanup(s.Close)
	run := func(args ...string) string {
		ui := cli.NewMockUi()
		must.Zero(t, (&queueCommand{apiCommand{meta: meta{UI: ui}}}).Run(append([]string{"-address", s.URL}, args...)))
		return ui.OutputWriter.String()
	}
	out := run("-pool", "gpu")
	must.StrContains(t, out, `
Queue     Guarantee  Limit  Used  Borrowed  Waiting  Decayed  Budget
courses   4          8      4     0         1        1234.6   -
research  8          -      9     1         3        0.0      5000.0 of 5000 per month
  speech  2          -      2     0         1        -        -
`)
	must.StrNotContains(t, run("-queue", "speech"), "Decayed")
	out = run("-json", "-queue", "research")
	must.StrContains(t, out, `"decayed": 0`)
	must.StrContains(t, out, `"until": "2026-12-01T00:00:00Z"`)
	must.StrNotContains(t, run("-json", "-queue", "speech"), "decayed")
}

// The budget of a small queue is not shown as 0.
func TestSlotHours(t *testing.T) {
	for n, want := range map[float64]string{0: "0.0", 0.0046: "0.0046", 0.5: "0.5", 1.0093: "1.01", 12.34: "12.3", 5000: "5000.0"} {
		must.Eq(t, want, slotHours(n))
	}
}
