// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

func policyOf(t testing.TB, line string) policy.Policy {
	t.Helper()
	p, err := builtin.Policies.Parse(line)
	must.NoError(t, err)
	return p
}

func treeOf(t testing.TB, queues ...queue.Queue) *queue.Tree {
	t.Helper()
	tree, problems := queue.New(queues)
	must.SliceEmpty(t, problems)
	return tree
}

// table is a pool of one GPU type with its jobs, as a test writes it down.
type table struct {
	t    testing.TB
	p    policy.Policy
	s    policy.Snapshot
	last policy.Decision
}

func newTable(t testing.TB, slots int, p policy.Policy) *table {
	return &table{t: t, p: p, s: policy.Snapshot{Now: 1, Nodes: []policy.Node{{ID: "n", GPUs: slots}}}}
}

// job adds a job that waits. Its queue is that of its namespace's name.
func (w *table) job(id, queue string, low, high int, change ...func(*policy.Job)) {
	j := policy.Job{ID: id, Queue: queue, Namespace: queue, Min: low, Max: high, Submit: float64(len(w.s.Jobs))}
	for _, c := range change {
		c(&j)
	}
	w.s.Jobs = append(w.s.Jobs, j)
}

func preemptible(j *policy.Job) { j.Preemptible = true }

// decide makes a decision and carries it out.
func (w *table) decide() *table {
	w.t.Helper()
	w.last = w.p.Allocate(&w.s)
	must.NoError(w.t, policy.Validate(&w.s, &w.last))
	w.s.State = w.last.State
	for i := range w.s.Jobs {
		w.s.Jobs[i].Count = w.last.Allocations[i].Count
	}
	return w
}

// counts are those of all jobs: "a=4 b=2".
func (w *table) counts() string {
	var out []string
	for i := range w.s.Jobs {
		out = append(out, fmt.Sprintf("%s=%d", w.s.Jobs[i].ID, w.s.Jobs[i].Count))
	}
	return strings.Join(out, " ")
}

func (w *table) reason(id string) string {
	for i := range w.s.Jobs {
		if w.s.Jobs[i].ID == id {
			return w.last.Allocations[i].Reason
		}
	}
	return ""
}

func q(name string, guarantee int, change ...func(*queue.Queue)) queue.Queue {
	out := queue.Queue{Name: name, Guarantee: guarantee, Weight: queue.WeightUnit}
	for _, c := range change {
		c(&out)
	}
	return out
}

// An unused guarantee is lent completely. It is taken back by shrinking the borrower, which
// keeps its minimum.
func TestPolicy_LendsAndTakesBack(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 8), q("b", 8)), policyOf(t, "elastic-fifo"), nil))
	w.job("b1", "b", 2, 16)
	must.Eq(t, "b1=16", w.decide().counts())
	w.job("a1", "a", 2, 16)
	must.Eq(t, "b1=8 a1=8", w.decide().counts())
	must.True(t, w.last.Allocations[0].Reclaimed)
	must.Eq(t, `shrinks 16→8: shares free GPUs in equal steps; queue "b" gives back slots that it borrowed`, w.reason("b1"))
	must.Eq(t, "b1=8 a1=8", w.decide().counts())
	must.False(t, w.last.Allocations[0].Reclaimed)
}

// Slots beyond all guarantees are divided by weight.
func TestPolicy_Weights(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 4), q("b", 0, func(q *queue.Queue) { q.Weight *= 3 })), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 1, 16)
	w.job("b1", "b", 1, 16)
	must.Eq(t, "a1=7 b1=9", w.decide().counts())
}

// A job that cannot be suspended starts only if its minimum leaves the guarantees of others
// within reach. A preemptible job starts, and is suspended for them later.
func TestPolicy_FirmSlots(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 12), q("b", 2)), policyOf(t, "elastic-fifo"), nil))
	w.job("b1", "b", 8, 8)
	w.job("b2", "b", 4, 8)
	w.job("b3", "b", 6, 6, preemptible)
	must.Eq(t, "b1=0 b2=8 b3=6", w.decide().counts())
	must.Eq(t, `waits-for-guarantee: it is not preemptible, and its minimum of 8 slots would take what other queues are guaranteed; queue "b" has a guarantee of 2 slots, of which jobs that cannot be suspended need 0`, w.reason("b1"))
	w.job("a1", "a", 1, 16)
	must.Eq(t, "b1=0 b2=4 b3=0 a1=12", w.decide().counts())
	must.True(t, w.last.Allocations[2].Reclaimed)
	must.Eq(t, `no-room: its minimum is 6 slots, and queue "b" may use 4 now`, w.decide().reason("b3"))
}

func TestPolicy_Limits(t *testing.T) {
	w := newTable(t, 32, New(treeOf(t,
		q("a", 0, func(q *queue.Queue) { q.Limit, q.MaxJob = 8, 6 }),
		q("b", 0, func(q *queue.Queue) { q.MaxJobs = 2 }),
		q("c", 0, func(q *queue.Queue) { q.PerNamespace = &queue.Caps{Limit: 2, MaxJobs: 1} }),
	), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 1, 32)
	w.job("a2", "a", 1, 32)
	w.job("a3", "a", 7, 32)
	w.job("b1", "b", 1, 4)
	w.job("b2", "b", 1, 4, preemptible)
	w.job("b3", "b", 1, 4, func(j *policy.Job) { j.Priority = 50 })
	of := func(namespace string) func(*policy.Job) { return func(j *policy.Job) { j.Namespace = namespace } }
	w.job("c1", "c", 1, 9, of("x"))
	w.job("c2", "c", 1, 9, of("y"))
	w.job("c3", "c", 1, 1, of("y"))
	w.job("c4", "c", 3, 3, of("z"))
	must.Eq(t, "a1=4 a2=4 a3=0 b1=4 b2=0 b3=4 c1=2 c2=2 c3=0 c4=0", w.decide().counts())
	must.Eq(t, `over-limit: its minimum is 7 slots, and max_job of queue "a" is 6`, w.reason("a3"))
	must.Eq(t, `over-limit: 2 jobs of queue "b" run, and its max_jobs is 2`, w.reason("b2"))
	must.Eq(t, `over-limit: 1 jobs of queue "c/y" run, and its max_jobs is 1`, w.reason("c3"))
	must.Eq(t, `over-limit: its minimum is 3 slots, and the limit of queue "c/z" is 2`, w.reason("c4"))
}

// A queue uses its own policy, or else that of the nearest queue around it.
func TestPolicy_OfAQueue(t *testing.T) {
	tree := treeOf(t, q("a", 8, func(o *queue.Queue) { o.Queues = []queue.Queue{q("a1", 4), q("a2", 4)} }), q("b", 6))
	w := newTable(t, 16, New(tree, policyOf(t, "elastic-fifo"), map[string]policy.Policy{"a": policyOf(t, "fifo")}))
	two := func(j *policy.Job) { j.Preferred = 2 }
	w.job("x", "a1", 1, 16, two)
	w.job("y", "a", 1, 16, two) // of the queue that has others inside
	w.job("z", "b", 1, 16, two)
	must.Eq(t, "x=2 y=2 z=12", w.decide().counts())
}

// A gang that is larger than its queue's share runs on the remaining slots, and keeps
// running.
func TestPolicy_GangsLargerThanTheirPart(t *testing.T) {
	w := newTable(t, 10, New(treeOf(t, q("a", 0), q("b", 0)), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 8, 8, preemptible)
	w.job("b1", "b", 8, 8, preemptible)
	must.Eq(t, "a1=8 b1=0", w.decide().counts())
	w.s.Jobs[1].Submit = -1 // b1 came first, but a1 runs
	must.Eq(t, "a1=8 b1=0", w.decide().counts())
	w.job("b2", "b", 1, 2)
	must.Eq(t, "a1=8 b1=0 b2=2", w.decide().counts())
	w.job("b3", "b", 2, 2)
	must.Eq(t, "a1=0 b1=0 b2=2 b3=2", w.decide().counts()) // 5 are b's
}

// Slots of jobs about which no policy decides count for the queue that holds them.
func TestPolicy_Fixed(t *testing.T) {
	w := newTable(t, 10, New(treeOf(t, q("a", 8, func(q *queue.Queue) { q.Limit = 8 }), q("b", 8)), policyOf(t, "elastic-fifo"), nil))
	w.s.Fixed = []policy.Fixed{{Queue: "a", Namespace: "a", Slots: 6}}
	w.job("a1", "a", 1, 9)
	w.job("b1", "b", 1, 9)
	must.Eq(t, "a1=2 b1=8", w.decide().counts())
}

// broken answers with everything for each job.
type broken struct{ err error }

func (broken) Name() string { return "broken" }
func (broken) Allocate(s *policy.Snapshot) (d policy.Decision) {
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Max})
	}
	return d
}

type failing struct{ broken }

func (f failing) TryAllocate(s *policy.Snapshot) (policy.Decision, error) {
	return f.Allocate(s), f.err
}

// stubborn keeps every job as it is.
type stubborn struct{ broken }

func (stubborn) Allocate(s *policy.Snapshot) policy.Decision { return keep(s, "") }

// An invalid decision of a policy affects only its own queue.
func TestPolicy_ABadPolicyHarmsNoOtherQueue(t *testing.T) {
	for name, bad := range map[string]policy.Policy{"asks for too much": broken{}, "never shrinks": stubborn{}} {
		w := newTable(t, 16, New(treeOf(t, q("a", 8), q("b", 8)), policyOf(t, "elastic-fifo"), map[string]policy.Policy{"b": bad}))
		w.job("b1", "b", 2, 16)
		w.job("b2", "b", 2, 16, func(j *policy.Job) { j.Sizes = sizes.List(2, 4, 8, 16) })
		w.s.Jobs[0].Count, w.s.Jobs[1].Count = 8, 8
		w.job("a1", "a", 8, 8)
		must.Eq(t, "b1=6 b2=2 a1=8", w.decide().counts(), must.Sprint(name))
		must.True(t, w.last.Allocations[1].Reclaimed)
	}
}

func TestPolicy_Fallible(t *testing.T) {
	tree := treeOf(t, q("a", 8), q("b", 8))
	p := New(tree, policyOf(t, "fifo"), map[string]policy.Policy{"b": failing{broken{errors.New("gone")}}})
	f, ok := p.(Fallible)
	must.True(t, ok)
	w := newTable(t, 16, p)
	w.job("b1", "b", 1, 16)
	w.s.Jobs[0].Count = 16
	_, err := f.TryAllocate(&w.s)
	must.EqError(t, err, `queue "b": gone`)

	// The failure of one queue's policy is no other's: it has its guarantee.
	w.job("a1", "a", 8, 8)
	d, err := f.TryAllocate(&w.s)
	must.NoError(t, err)
	must.NoError(t, policy.Validate(&w.s, &d))
	must.Eq(t, []int{8, 8}, []int{d.Allocations[0].Count, d.Allocations[1].Count})
	must.True(t, d.Allocations[0].Reclaimed)
	_, ok = New(tree, policyOf(t, "fifo"), nil).(fallible)
	must.False(t, ok)
}

// Before a reservation begins, its slots are lent to jobs that shrink or can be suspended.
// When it begins, its queue gets them at once.
func TestPolicy_Reservations(t *testing.T) {
	tree, problems := treeOf(t, q("demo", 0), q("b", 0)).With([]queue.Reservation{{Name: "r", Queue: "demo", Slots: 12, From: 100, Until: 200}})
	must.SliceEmpty(t, problems)
	w := newTable(t, 16, New(tree, policyOf(t, "elastic-fifo"), nil))
	w.job("b1", "b", 2, 16)
	w.job("b2", "b", 3, 3)
	w.job("b3", "b", 3, 3, preemptible)
	must.Eq(t, "b1=13 b2=0 b3=3", w.decide().counts())
	must.Eq(t, "reservation: it is not preemptible, and its minimum of 3 slots would take slots that are reserved for later", w.reason("b2"))
	must.Eq(t, 100, w.last.RequeueAt)
	w.s.Now = 100
	w.job("demo", "demo", 1, 16)
	must.Eq(t, "b1=2 b2=0 b3=0 demo=14", w.decide().counts())
	must.Eq(t, 200, w.last.RequeueAt)
	w.s.Now = 200
	must.Eq(t, "b1=2 b2=3 b3=3 demo=8", w.decide().counts())
}

// A pool may be without nodes or without jobs.
func TestPolicy_EmptyPools(t *testing.T) {
	p := New(treeOf(t, q("a", 8)), policyOf(t, "kolo"), nil)
	must.SliceEmpty(t, p.Allocate(&policy.Snapshot{}).Allocations)
	w := newTable(t, 0, p)
	w.s.Nodes = nil
	w.job("a1", "a", 1, 4)
	w.s.Jobs[0].Count = 2
	w.job("a2", "a", 1, 4)
	w.decide()
	must.Eq(t, 0, w.s.Jobs[1].Count)
	must.Eq(t, "no-room: its minimum is 1 slots, and jobs that cannot be suspended leave 0 of the 0 slots of the pool", w.reason("a2"))
}

// A job that would not fit next to the jobs that cannot be suspended does not wait for a
// guarantee.
func TestPolicy_FirmSlotsLeaveNoRoom(t *testing.T) {
	w := newTable(t, 8, New(treeOf(t, q("a", 0), q("b", 2)), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 4, 4)
	w.job("a2", "a", 5, 5)
	w.job("a3", "a", 3, 3)
	must.Eq(t, "a1=4 a2=0 a3=0", w.decide().counts())
	must.Eq(t, "no-room: its minimum is 5 slots, and jobs that cannot be suspended leave 4 of the 8 slots of the pool", w.reason("a2"))
	must.StrHasPrefix(t, "waits-for-guarantee: it is not preemptible, and its minimum of 3 slots", w.reason("a3"))
}

// The status keeps the reason that a queue's policy gives for a wait, in numbers of the
// queue.
func TestPolicy_KeepsTheWordsOfItsPolicies(t *testing.T) {
	w := newTable(t, 8, New(treeOf(t, q("a", 4), q("b", 4)), policyOf(t, "elastic-fifo"), nil))
	w.s.Nodes[0].Type = "a100"
	w.job("a1", "a", 1, 1, preemptible, func(j *policy.Job) { j.Type = "h100" })
	w.job("a2", "a", 4, 4, preemptible)
	w.job("b1", "b", 1, 4, preemptible)
	w.job("b2", "b", 6, 8, preemptible)
	w.decide().decide()
	for k, want := range []waiting.Reason{waiting.Constraint, "", "", waiting.NoRoom} {
		must.Eq(t, want, w.last.Allocations[k].Wait, must.Sprint(w.last.Allocations[k]))
	}
	must.Eq(t, "constraint: waits: the cluster has no GPU of type h100", w.reason("a1"))
	must.StrHasPrefix(t, `no-room: its minimum is 6 slots, and queue "b" may use 4 now`, w.reason("b2"))
}

// least gives every job its minimum.
type least struct{ broken }

func (least) Allocate(s *policy.Snapshot) policy.Decision {
	d := keep(s, "least")
	for i := range d.Allocations {
		d.Allocations[i].Count = s.Jobs[i].Min
	}
	return d
}

// If a policy shrinks a job by its own decision, the job returns no borrowed slots, so its
// hold applies.
func TestPolicy_ReclaimedIsNotEachShrink(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 8), q("b", 8)), least{}, nil))
	w.job("a1", "a", 1, 16)
	w.s.Jobs[0].Count = 12
	must.Eq(t, "a1=1", w.decide().counts())
	must.Eq(t, policy.Allocation{Job: "a1", Count: 1, Reason: "least"}, w.last.Allocations[0])
}
