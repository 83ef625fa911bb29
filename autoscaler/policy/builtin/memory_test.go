// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Policies that remember something, followed over a few decisions.

// decide applies one decision and answers its counts.
func decide(t *testing.T, p policy.Policy, s *policy.Snapshot) []int {
	t.Helper()
	d := p.Allocate(s)
	apply(s, &d)
	return counts(d)
}

func TestRoundRobin_TurnsAfterAQuantum(t *testing.T) {
	p, err := Policies.Parse("round-robin(quantum=600)")
	must.NoError(t, err)
	s := cluster(4, policy.Job{Preferred: 4}, policy.Job{Preferred: 4}, policy.Job{Preferred: 4})
	must.Eq(t, []int{4, 0, 0}, decide(t, p, s))
	progress(s, 300)
	must.Eq(t, []int{4, 0, 0}, decide(t, p, s))
	progress(s, 300)
	must.Eq(t, []int{0, 4, 0}, decide(t, p, s))
	progress(s, 600)
	must.Eq(t, []int{0, 0, 4}, decide(t, p, s))
	progress(s, 600)
	must.Eq(t, []int{4, 0, 0}, decide(t, p, s))
}

func TestRoundRobin_LeavesJobsAloneWhenNobodyWaits(t *testing.T) {
	p, err := Policies.Parse("round-robin(quantum=600)")
	must.NoError(t, err)
	s := cluster(4, policy.Job{Preferred: 2}, policy.Job{Preferred: 2})
	for range 4 {
		must.Eq(t, []int{2, 2}, decide(t, p, s))
		must.Eq(t, 0, p.Allocate(s).RequeueAt)
		progress(s, 700)
	}
}

func TestTiresias_PromotesAStarvedJob(t *testing.T) {
	p, err := Policies.Parse("tiresias(thresholds=[1000], starvation=2)")
	must.NoError(t, err)
	s := cluster(4, policy.Job{Preferred: 4}, policy.Job{Preferred: 4})
	must.Eq(t, []int{4, 0}, decide(t, p, s))
	progress(s, 300) // 1200 GPU-seconds: the first job falls to the second queue
	must.Eq(t, []int{0, 4}, decide(t, p, s))
	progress(s, 240) // the second has 960 and stays
	must.Eq(t, []int{0, 4}, decide(t, p, s))
	// Both are in the second queue from here on; the first job was started
	// first and comes back.
	progress(s, 100)
	must.Eq(t, []int{4, 0}, decide(t, p, s))
	// The second ran for 340 s, so after 680 s of waiting it is in the first
	// queue again.
	progress(s, 600)
	must.Eq(t, []int{4, 0}, decide(t, p, s))
	progress(s, 100)
	must.Eq(t, []int{0, 4}, decide(t, p, s))
}

func TestThemis_HoldsForALease(t *testing.T) {
	p, err := Policies.Parse("themis(lease=1000)")
	must.NoError(t, err)
	s := cluster(4, policy.Job{Preferred: 4, Remaining: 1000}, policy.Job{Preferred: 4, Remaining: 1000})
	must.Eq(t, []int{4, 0}, decide(t, p, s))
	// The second job is short, and waited long for that.
	s.Jobs[1].Remaining = 10
	progress(s, 500)
	must.Eq(t, []int{4, 0}, decide(t, p, s))
	progress(s, 500)
	must.Eq(t, []int{0, 4}, decide(t, p, s))
}

func TestDragon_GrowsAfterIdleTime(t *testing.T) {
	p, err := Policies.Parse("dragon(idle=60)")
	must.NoError(t, err)
	s := cluster(8, policy.Job{Preferred: 2})
	must.Eq(t, []int{2}, decide(t, p, s))
	progress(s, 30)
	must.Eq(t, []int{2}, decide(t, p, s))
	progress(s, 30)
	must.Eq(t, []int{8}, decide(t, p, s))
}

func TestElasticFlow_AdmittedJobsKeepTheirGuarantee(t *testing.T) {
	p, err := Policies.Parse("elasticflow")
	must.NoError(t, err)
	// 300 steps in 100 s need four workers (three is no power of two).
	s := cluster(4, policy.Job{Remaining: 300, Deadline: 10_100})
	must.Eq(t, []int{4}, decide(t, p, s))
	// A newcomer with an earlier deadline could be met alone, not next to it.
	s.Jobs = append(s.Jobs, cluster(4, policy.Job{}, policy.Job{Remaining: 100, Deadline: 10_050}).Jobs[1])
	must.Eq(t, []int{4, 0}, decide(t, p, s))
}

func TestOasis_BuysTheCheapSlot(t *testing.T) {
	p, err := Policies.Parse("oasis(slot=100, slots=4)")
	must.NoError(t, err)
	// Perfect scaling: the first job ends soonest by taking the whole slot.
	s := cluster(8, policy.Job{Remaining: 800, Weight: 10})
	s.Jobs[0].Submit = s.Now
	must.Eq(t, []int{8}, decide(t, p, s))
	// Now the slot is sold out. A light job gets none of it but may run
	// later; it must not disturb the plan.
	newcomer := cluster(8, policy.Job{}, policy.Job{Remaining: 800, Weight: 0.01}).Jobs[1]
	newcomer.Submit = s.Now
	s.Jobs = append(s.Jobs, newcomer)
	must.Eq(t, []int{8, 0}, decide(t, p, s))
}

func TestKolo_KeepsCountsBetweenEvents(t *testing.T) {
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	s := cluster(8, policy.Job{Preferred: 8}, policy.Job{Preferred: 8})
	want := decide(t, p, s)
	s.Changed = false
	s.Jobs[0].Attained = 1e6
	must.Eq(t, want, decide(t, p, s))
}

// TestEventPolicies_AJobIsToldWhyItWaits: a job keeps the reason of its wait in later
// decisions. It is not replaced by the fact that nothing has changed.
func TestEventPolicies_AJobIsToldWhyItWaits(t *testing.T) {
	for _, name := range []string{"kolo", "afs-l"} {
		p, err := Policies.New(name, nil)
		must.NoError(t, err)
		s := cluster(4, policy.Job{Count: 4, Min: 4, Max: 4, Attained: 1000}, policy.Job{Min: 4, Max: 4}, policy.Job{Min: 8})
		s.Jobs[0].Preemptible = false
		first := p.Allocate(s)
		must.Eq(t, []int{4, 0, 0}, counts(first), must.Sprint(name))
		must.Eq(t, "waits: its minimum is more than the whole cluster has", first.Allocations[2].Reason, must.Sprint(name))
		for s.State, s.Changed = first.State, false; s.Now < 10_003; s.Now++ {
			d := p.Allocate(s)
			must.Eq(t, first.Allocations[1:], d.Allocations[1:], must.Sprint(name))
			s.State = d.State
		}
	}
}

// A job that waits for its tenant's share has the reason over-limit only if the policy
// lends no slots.
func TestWeightedFair_NamesTheLimit(t *testing.T) {
	for _, tc := range []struct {
		options, reason string
		wait            waiting.Reason
	}{
		{"shares={red=3, blue=1}, borrow=false", "waits: its tenant has 4 of its share of 6 GPUs, and borrows none", waiting.OverLimit},
		{"shares={red=3, blue=1}", "waits for free GPUs", waiting.InQueue},
	} {
		p, err := Policies.Parse("weighted-fair(" + tc.options + ")")
		must.NoError(t, err)
		s := cluster(8, policy.Job{Tenant: "red", Min: 4, Max: 4}, policy.Job{Tenant: "red", Min: 4, Max: 4}, policy.Job{Tenant: "red", Min: 4, Max: 4})
		a := p.Allocate(s).Allocations[2]
		must.Eq(t, tc.wait, a.Wait)
		must.Eq(t, tc.reason, a.Reason)
	}
}

// TestEventPolicies_RepeatAPlanUntilItIsCarriedOut needs two rounds for one plan, because
// the new job can start only after the old one has shrunk.
func TestEventPolicies_RepeatAPlanUntilItIsCarriedOut(t *testing.T) {
	for _, name := range []string{"kolo", "afs-l"} {
		t.Run(name, func(t *testing.T) {
			p, err := Policies.New(name, nil)
			must.NoError(t, err)
			s := cluster(4, policy.Job{Count: 4, Attained: 1000, Max: 4, Curve: speedups(1, 1.8, 2.4, 2.8)},
				policy.Job{Max: 4, Preferred: 4, Curve: speedups(1, 1.8, 2.4, 2.8)})
			d := p.Allocate(s)
			want := counts(d)
			must.Positive(t, want[1])
			s.State, s.Changed = d.State, false
			s.Jobs[0].Count = want[0]
			d = p.Allocate(s)
			must.Eq(t, want, counts(d))
			s.State = d.State
			s.Jobs[1].Count = want[1]
			must.Eq(t, want, counts(p.Allocate(s)))
			// The job ends; what was wanted for it is forgotten.
			s.Jobs, s.State = s.Jobs[:1], d.State
			must.StrNotContains(t, string(p.Allocate(s).State), "job1")
		})
	}
}

func TestFIFO_AJobStartedInPartStillWantsTheRest(t *testing.T) {
	p, err := Policies.New("fifo", nil)
	must.NoError(t, err)
	must.Eq(t, []int{4}, decide(t, p, cluster(8, policy.Job{Preferred: 4, Count: 2})))
}

func TestKolo_NobodyWaitsForEver(t *testing.T) {
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	// One GPU and an endless stream of fresh jobs that would each win over
	// the old one.
	s := cluster(1, policy.Job{Max: 1, Attained: 1e6, RunTime: 1e6, Count: 1})
	s.Jobs[0].Submit = s.Now - 1e6
	old := s.Jobs[0]
	for i := range 100_000 {
		s.Jobs = []policy.Job{old, {ID: "fresh", Submit: s.Now, Min: 1, Max: 1, Preemptible: true, Curve: linear, Weight: 1}}
		s.Changed = true
		d := p.Allocate(s)
		old.Count = d.Allocations[0].Count
		if i > 0 && old.Count == 1 {
			return
		}
		s.Now += 1000
	}
	t.Fatal("the old job never ran again")
}

func TestPollux_PlansOnceAPeriod(t *testing.T) {
	p, err := Policies.Parse("pollux(period=60)")
	must.NoError(t, err)
	s := cluster(4, policy.Job{Max: 4, Preferred: 1})
	s.ResizeCost = 1
	must.Eq(t, []int{4}, decide(t, p, s))
	s.Changed = false
	s.Jobs[0].Max = 2 // no event announces it
	must.Eq(t, []int{2}, decide(t, p, s), must.Sprint("a plan that no longer fits is made again"))
	s.Jobs[0].Max = 4
	progress(s, 59)
	must.Eq(t, []int{2}, decide(t, p, s))
	must.Eq(t, s.Now+1, p.Allocate(s).RequeueAt)
	progress(s, 1)
	must.Eq(t, []int{4}, decide(t, p, s))
	s.Jobs = nil
	must.Eq(t, 0, p.Allocate(s).RequeueAt)
}
