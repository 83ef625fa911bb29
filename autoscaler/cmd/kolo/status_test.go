// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// TestShow_AJobCannotSteerTheTerminal has a tenant choose a job name with control
// characters that would hide the job from the operator.
func TestShow_AJobCannotSteerTheTerminal(t *testing.T) {
	ui := cli.NewMockUi()
	c := &apiCommand{meta: meta{UI: ui}}
	c.show(nil, func() string {
		return drawStatus(&api.Status{Ready: true, Jobs: []api.JobStatus{{JobKey: identity.JobKey{ID: "x\x1b[2K\x1b[1A"}, Reason: "\x1b]0;title\x07"}}}, false)
	})
	must.StrNotContains(t, ui.OutputWriter.String(), "\x1b")
	must.StrContains(t, ui.OutputWriter.String(), "x�[2K")
}

// TestDrawStatus_Role: the first line shows which autoscaler leads.
func TestDrawStatus_Role(t *testing.T) {
	for want, s := range map[string]api.Status{
		"a leads":                   {Leading: true, Leader: api.Leader{Name: "a"}},
		"a follows b http://b:8648": {Leader: api.Leader{Name: "b", Address: "http://b:8648"}},
		"a follows":                 {},
		"a has lost the lock that it held; NOMAD CANNOT BE READ: refused": {Leader: api.Leader{Name: "a"}, Problem: "refused"},
	} {
		s.Autoscaler, s.Ready = "a", true
		first, _, _ := strings.Cut(drawStatus(&s, false), "\n")
		must.Eq(t, want, first)
	}
}

// TestStatus_ACompleteJobIsComplete has a training whose last report came before its last
// step.
func TestStatus_ACompleteJobIsComplete(t *testing.T) {
	j := api.JobStatus{JobKey: identity.JobKey{Namespace: "default", ID: "a"}, State: api.StateComplete, Step: 278, Total: 280, Progress: 1}
	must.Eq(t, "complete", statusRow(&j, time.Now())[5])
	must.Eq(t, "complete; last report: step 278 of 280", jobProgress(&j))
	j.State, j.Progress = api.StateRunning, 278.0/280
	must.Eq(t, "99%", statusRow(&j, time.Now())[5])
	must.Eq(t, "step 278 of 280", jobProgress(&j))
	must.Eq(t, "complete", jobProgress(&api.JobStatus{State: api.StateComplete}))
	must.Eq(t, "", jobProgress(&api.JobStatus{State: api.StateRunning}))
}

// Unknown costs of a resize are shown as unknown, not as 0.
func TestStatus_AnUnknownGapIsNotZero(t *testing.T) {
	seconds, lost := 0.25, 7.0
	j := api.JobStatus{Gaps: []history.Gap{{From: 2, To: 4, Seconds: &seconds, Lost: &lost}}}
	must.Eq(t, "0.25s", statusRow(&j, time.Now())[8])
	must.Eq(t, "2→4 slots in 0.25 s, 7 steps lost", gapText(j.Gaps[0]))
	j.Gaps = append(j.Gaps, history.Gap{From: 4, To: 2})
	must.Eq(t, "unknown", statusRow(&j, time.Now())[8])
	must.Eq(t, "4→2 slots, time unknown, lost steps unknown", gapText(j.Gaps[1]))
}

// TestSpreadRows checks the rows that show how far apart a job's workers are, and what that
// costs the job.
func TestSpreadRows(t *testing.T) {
	racks, nodes := migrate.Crossing{Level: "meta.rack", Domains: 2}, migrate.Crossing{Level: "node", Domains: 2}
	cost := func(slowdown float64, than migrate.Crossing, step, thanStep float64) []api.CrossingCost {
		return []api.CrossingCost{{
			Size: 4, Slowdown: slowdown, OfKind: step == 0,
			SpreadTime: api.SpreadTime{Crossing: racks, StepTime: step}, Than: api.SpreadTime{Crossing: than, StepTime: thanStep},
		}}
	}
	for name, tc := range map[string]struct {
		spread *api.Spread
		want   string
	}{
		"no topology":         {},
		"workers have moved":  {spread: &api.Spread{Costs: cost(1.31, migrate.Crossing{}, 1.15, 0.88)}, want: "Crossing: on 2 of meta.rack 31 % slower than on 1 (4 workers: 1.15 s a step against 0.88 s)"},
		"in one place":        {spread: &api.Spread{Workers: 4}, want: "Spread: none"},
		"on two racks":        {spread: &api.Spread{Workers: 4, Crossing: racks}, want: "Spread: on 2 of meta.rack"},
		"against two nodes":   {spread: &api.Spread{Costs: cost(1.31, nodes, 1.15, 0.88)}, want: "Crossing: on 2 of meta.rack 31 % slower than on 1 (4 workers: 1.15 s a step against 0.88 s)"},
		"against fewer racks": {spread: &api.Spread{Costs: cost(2, migrate.Crossing{Level: "meta.rack", Domains: 3}, 12.345, 6.17)}, want: "Crossing: on 2 of meta.rack 100 % slower than on 3 (4 workers: 12.3 s a step against 6.17 s)"},
		"it does not care":    {spread: &api.Spread{Costs: cost(1.004, migrate.Crossing{}, 1.004, 1)}, want: "Crossing: on 2 of meta.rack as fast as on 1 (4 workers: 1 s a step against 1 s)"},
		"faster":              {spread: &api.Spread{Costs: cost(0.9, migrate.Crossing{}, 0.9, 1)}, want: "Crossing: on 2 of meta.rack 10 % faster than on 1 (4 workers: 0.9 s a step against 1 s)"},
		"as others showed":    {spread: &api.Spread{Costs: cost(1.5, migrate.Crossing{}, 0, 0)}, want: "Crossing: on 2 of meta.rack 50 % slower than on 1 (4 workers: other jobs of its kind)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, row := range spreadRows(tc.spread) {
				got = append(got, strings.Join(row, ": "))
			}
			must.Eq(t, tc.want, strings.Join(got, "\n"))
		})
	}
}

// TestWanted checks how the room that jobs lack is shown.
func TestWanted(t *testing.T) {
	for want, p := range map[string]api.PoolStatus{
		"":                    {Nodes: []api.NodeClass{{Class: "a100", Nodes: 2}}},
		"wanted: 1 more slot": {Lacks: []api.Lack{{Slots: 1}}},
		"wanted: 12 more slots (8 within one meta.rack), 2 nodes of class a100, 1 node": {
			Lacks: []api.Lack{{Slots: 4}, {Slots: 8, Level: "meta.rack"}},
			Nodes: []api.NodeClass{{Class: "a100", Waiting: 1, Growing: 1}, {Class: "", Growing: 1}, {Class: "h100"}},
		},
	} {
		must.Eq(t, want, wanted(&p))
		must.StrContains(t, drawStatus(&api.Status{Ready: true, Pools: []api.PoolStatus{p}}, false), want)
	}
}

// A waiting job without a kolo block is in the status, with its reason.
func TestDrawStatus_Blocked(t *testing.T) {
	s := &api.Status{Ready: true, Blocked: []api.BlockedJob{{
		JobKey: identity.JobKey{Namespace: "b", ID: "plain"}, Slots: 3, Reason: waiting.NoRoom, Sentence: "it needs 3 slots, and elastic jobs can spare 1 for it",
	}}}
	must.StrContains(t, drawStatus(s, false), "b/plain has no kolo block and waits for 3 slots: no-room: it needs 3 slots, and elastic jobs can spare 1 for it.")
}

// A straggler is shown with its node.
func TestJob_Adaptive(t *testing.T) {
	j := api.JobStatus{Adaptive: &api.Adaptive{Initial: 32, Batch: 256, Accumulation: 2, Efficiency: 0.81, LRFactor: 6.48}}
	must.StrContains(t, drawJob(&api.Job{Job: &j}), "Batch     256 samples (initially 32) in 2 passes of each rank, efficiency 81 %, learning rate × 6.48\n")
	j.Adaptive = &api.Adaptive{Initial: 32, Batch: 32, Accumulation: 1, Efficiency: 1, LRFactor: 1, Kept: true}
	must.StrContains(t, drawJob(&api.Job{Job: &j}), "32 samples (initially 32) in 1 pass of each rank, efficiency 100 %, learning rate × 1; its node pool does not let it adapt\n")
	must.StrNotContains(t, drawJob(&api.Job{Job: &api.JobStatus{}}), "Batch")
}

func TestJob_Straggler(t *testing.T) {
	j := api.JobStatus{Straggler: &api.Straggler{Rank: 5, Node: "c7", Share: 0.92, Behind: 0.14}}
	must.StrContains(t, drawJob(&api.Job{Job: &j}), "Straggler  rank 5 on node c7 comes last in 92 % of steps, 140 ms after the median")
	j.Straggler.Behind = 75.2
	must.StrContains(t, drawJob(&api.Job{Job: &j}), ", 75 s after the median")
	must.StrNotContains(t, drawJob(&api.Job{Job: &api.JobStatus{}}), "Straggler")
}

// The last stall of a job is shown with the innermost calls of the odd ranks.
func TestJob_Stall(t *testing.T) {
	draw := func(s *api.Stall) string {
		return drawJob(&api.Job{Job: &api.JobStatus{}, JobDetail: api.JobDetail{Training: &api.Training{Stall: s}}})
	}
	must.StrNotContains(t, draw(nil), "Last stall")
	at := time.Date(2026, 11, 28, 14, 2, 11, 0, time.UTC)
	must.StrContains(t, draw(&api.Stall{Time: at, Size: 8, Seconds: 61.4}), "Last stall  2026-11-28 14:02:11: its ring of 8 made no step for 1m1s\n")
	s := &api.Stall{Size: 8, Seconds: 61, Stacks: &stacks.Summary{Silent: "2", Groups: []stacks.Alike{
		{Ranks: "5", Count: 1, Suspect: true, Process: rank(5, stacks.Sleeping, "poll", "fetch", "__next__", "train", "main").Process},
		{Ranks: "3, 4", Count: 2, Suspect: true, Process: rank(3, stacks.Stopped).Process},
		{Ranks: "0, 1, 6, 7", Count: 4, Process: rank(0, stacks.Sleeping, "all_reduce").Process},
	}}}
	out := draw(s)
	must.StrContains(t, out, "rank 5: sleeping in futex: poll (poll.py:1) < fetch (fetch.py:2) < __next__ (__next__.py:3) < train (train.py:4)\n")
	must.StrContains(t, out, "ranks 3, 4: stopped by a signal (SIGSTOP): stack unknown: py-spy is not installed; ")
	must.StrContains(t, out, "ranks whose agents did not answer: 2")
	must.StrNotContains(t, out, "all_reduce", must.Sprint("the healthy ones"))
	s.Stacks.Groups, s.Stacks.Dropped = slices.Repeat(s.Stacks.Groups[:1], 5), 4
	must.StrContains(t, draw(s), "6 more in kolo job -json")
	s.Stacks.Groups, s.Stacks.Dropped = s.Stacks.Groups[:1], 0
	must.StrContains(t, draw(s), "rank 5: ", must.Sprint("no group is healthy"))
}

// A job that is idle or hangs is shown with the time since its last step.
func TestStatus_Idle(t *testing.T) {
	j := api.JobStatus{State: api.StateRunning, Idle: 1920.7}
	must.Eq(t, "running, idle for 32m0s", statusRow(&j, time.Now())[1])
	j.Hangs = 1920
	must.Eq(t, "running, hangs for 32m0s", statusRow(&j, time.Now())[1])
	must.StrContains(t, drawJob(&api.Job{Job: &j}), "no step for 32m0s")
	j.Idle, j.Hangs = 0, 0
	must.Eq(t, "running", statusRow(&j, time.Now())[1])
	must.StrNotContains(t, drawJob(&api.Job{Job: &j}), "no step for")
}

// The remaining work of a job is shown with the source of the estimate.
func TestDrawJob_Remaining(t *testing.T) {
	for want, r := range map[string]*api.Remaining{
		"600 steps, declared by the job":                                                 {Origin: api.OriginJob, Steps: 600},
		"600 steps, reported by the training":                                            {Origin: api.OriginTraining, Steps: 600},
		"probably 120 to 900 slot-seconds, predicted from 16 completed jobs of its kind": {Origin: "kind", Jobs: 16, Low: 120, High: 900},
	} {
		must.StrContains(t, drawJob(&api.Job{Job: &api.JobStatus{Remaining: r}}), want)
	}
	must.StrNotContains(t, drawJob(&api.Job{Job: &api.JobStatus{}}), "Remaining")
}

// The groups of a gang are shown with their number of workers in one unit.
func TestDrawJob_Ratio(t *testing.T) {
	out := drawJob(&api.Job{Job: &api.JobStatus{Requests: api.Requests{Ratio: map[string]int{"workers": 4, "ps": 1}}}})
	must.StrContains(t, out, "1 ps, 4 workers")
}

// If the nodes of a pool have no slots, for example CPU nodes without cpu_slot, the status
// names what to check.
func TestDrawStatus_NoSlots(t *testing.T) {
	s := &api.Status{Autoscaler: "a", Ready: true, Pools: []api.PoolStatus{{Name: "default", Policy: "kolo", Nodes: []api.NodeClass{{Nodes: 2}}}}}
	must.StrContains(t, drawStatus(s, false), "no node has a slot; check device or cpu_slot of the pool")
	s.Pools[0].Capacity = 1
	must.StrNotContains(t, drawStatus(s, false), "no node has a slot")
}

// The output of kolo job has what a job reports, and omits unknown values.
func TestDrawJob_Training(t *testing.T) {
	loss := 0.0625
	at := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	j := api.JobStatus{
		State: api.StateRunning, Size: 4, Loss: &loss, ETA: at, WriteError: "403: Permission denied",
		StepTimes: []speedup.Point{{Size: 1, StepTime: 0.25}, {Size: 2, StepTime: 0.135}},
	}
	out := drawJob(&api.Job{Job: &j})
	for _, want := range []string{
		"Trains on     4 slots", "Loss          0.0625", "Step time     0.25 s on 1 worker, 0.135 s on 2 workers",
		"Complete by   2026-11-20 22:00:00", "Write failed  403: Permission denied",
	} {
		must.StrContains(t, out, want)
	}
	out = drawJob(&api.Job{Job: &api.JobStatus{State: api.StateRunning}})
	for _, unknown := range []string{"Loss", "Step time", "Trains on", "Complete by", "Write failed", "Tenant"} {
		must.StrNotContains(t, out, unknown)
	}
}
