// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// teams are the queues of most examples: 64 slots, of which 40 are guaranteed.
func teams() []Queue {
	return []Queue{
		{Name: "research", Namespaces: []string{"research"}, Guarantee: 32, Limit: 48, Weight: 2 * WeightUnit, Queues: []Queue{
			{Name: "vision", Guarantee: 8, Weight: WeightUnit}, {Name: "speech", Weight: WeightUnit},
		}},
		{Name: "lab", Namespaces: []string{"lab-*"}, Weight: WeightUnit, PerNamespace: &Caps{Limit: 2, MaxJobs: 3}},
		{Name: "courses", Namespaces: []string{"courses", "lab-course"}, Guarantee: 8, Weight: WeightUnit},
	}
}

func tree(t *testing.T, queues []Queue) *Tree {
	t.Helper()
	tr, problems := New(queues)
	must.SliceEmpty(t, problems)
	return tr
}

func TestTree_Assign(t *testing.T) {
	tr := tree(t, teams())
	for _, tc := range []struct{ namespace, named, want string }{
		{"research", "research", "research"},
		{"research", "vision", "vision"},
		{"lab-a", "lab-a", "lab"},
		{"lab-course", "lab-course", "courses"}, // a whole name goes before a beginning
		{"other", "other", ""},
		{"lab", "made-up", ""},
	} {
		must.Eq(t, tc.want, tr.Assign(tc.namespace, tc.named), must.Sprintf("%+v", tc))
	}
}

func TestLayout_Leaf(t *testing.T) {
	l := tree(t, teams()).Layout()
	own, again := l.Leaf("research", "research"), l.Leaf("research", "research")
	must.Eq(t, own, again)
	must.Eq(t, "research", l.Nodes[l.Nodes[own].Parent].Name)
	a, b := l.Leaf("lab", "lab-a"), l.Leaf("lab", "lab-b")
	must.NotEq(t, a, b)
	must.Eq(t, 2, l.Nodes[a].Limit)
	must.Eq(t, "lab", l.Queue(a))
	must.Eq(t, "", l.Queue(l.Leaf("", "other")))
}

// TestDivide has one division of 64 slots per line: the slots that vision, speech, courses,
// and the namespaces lab-a and other want and get.
func TestDivide(t *testing.T) {
	for name, tc := range map[string]struct{ wanted, want [5]int }{
		"no one wants anything":           {[5]int{}, [5]int{}},
		"one has all that it may":         {[5]int{64}, [5]int{48}},
		"a limit above":                   {[5]int{40, 40}, [5]int{28, 20}},
		"a cap per namespace":             {[5]int{3: 64}, [5]int{3: 2}},
		"guarantees first":                {[5]int{64, 0, 64, 64, 64}, [5]int{44, 0, 13, 2, 5}},
		"what one leaves, others get":     {[5]int{4, 0, 64, 64, 64}, [5]int{4, 0, 33, 2, 25}},
		"a guarantee that is half wanted": {[5]int{0, 64, 4, 0, 64}, [5]int{0, 48, 4, 0, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			l := tree(t, teams()).Layout()
			leaves := []int{l.Leaf("vision", ""), l.Leaf("speech", ""), l.Leaf("courses", ""), l.Leaf("lab", "lab-a"), l.Leaf("", "other")}
			l.Fit(64)
			demand := make([]Demand, len(l.Nodes))
			for k, n := range leaves {
				demand[n].Wanted = tc.wanted[k]
			}
			shares := l.Divide(64, demand)
			var got [5]int
			for k, n := range leaves {
				got[k] = shares[n]
			}
			must.Eq(t, tc.want, got)
		})
	}
}

// While nodes are missing, guarantees shrink in proportion.
func TestLayout_Fit(t *testing.T) {
	l := tree(t, teams()).Layout()
	l.Fit(20)
	must.Eq(t, []int{16, 4}, []int{l.Nodes[l.byName["research"]].Guarantee, l.Nodes[l.byName["courses"]].Guarantee})
	must.Eq(t, 8, l.Nodes[l.byName["vision"]].Guarantee)
	l.Fit(5)
	must.Eq(t, 4, l.Nodes[l.byName["vision"]].Guarantee)
}

// Firm slots beyond a queue's guarantee must leave enough for all other guarantees.
func TestReserve(t *testing.T) {
	l := tree(t, teams()).Layout()
	speech, lab := l.Leaf("speech", ""), l.Leaf("lab", "lab-a")
	l.Fit(64)
	r := l.Reserve(64, nil, true)
	fits := func(leaf, n int) bool {
		_, ok := r.Fits(leaf, n)
		return ok
	}
	must.True(t, fits(speech, 24)) // 8 of research's 32 are vision's
	must.True(t, fits(speech, 40)) // and 24 are no one's; its limit is 48
	must.False(t, fits(speech, 41))
	at, _ := r.Fits(speech, 41)
	must.Eq(t, "research", l.Nodes[at].Name)
	must.False(t, fits(lab, 3))
	r.Add(speech, 40)
	must.True(t, fits(lab, 2))
	r.Add(lab, 2)
	other := l.Leaf("", "other")
	firm := make([]int, len(l.Nodes))
	firm[speech], firm[lab] = 40, 2
	r = l.Reserve(64, firm, true)
	must.True(t, fits(other, 6))
	must.False(t, fits(other, 7))
}

func TestNew_Problems(t *testing.T) {
	q := func(name string, change func(q *Queue)) Queue {
		out := Queue{Name: name, Weight: WeightUnit}
		change(&out)
		return out
	}
	for name, tc := range map[string]struct {
		queues []Queue
		want   string
	}{
		"guarantees above the parent's": {
			[]Queue{q("a", func(q *Queue) {
				q.Guarantee, q.Queues = 4, []Queue{{Name: "b", Guarantee: 3, Weight: 1}, {Name: "c", Guarantee: 2, Weight: 1}}
			})},
			`queue "a": guarantee: the queues inside are guaranteed 5 slots together, and it is guaranteed 4 itself; write guarantee = 5 or more`,
		},
		"a namespace in two queues": {
			[]Queue{q("a", func(q *Queue) { q.Namespaces = []string{"x"} }), q("b", func(q *Queue) { q.Namespaces = []string{"x"} })},
			`queue "b": namespaces: namespace "x" is in queue "a" already; remove it from one of the two`,
		},
		"two queues of one name": {
			[]Queue{q("a", func(*Queue) {}), q("b", func(q *Queue) { q.Queues = []Queue{{Name: "a", Weight: 1}} })},
			`queue "a": there are two queues of this name`,
		},
		"weight 0":                      {[]Queue{q("a", func(q *Queue) { q.Weight = 0 })}, `queue "a": weight: a weight of 0 gives it no share`},
		"a guarantee above its limit":   {[]Queue{q("a", func(q *Queue) { q.Guarantee, q.Limit = 4, 3 })}, `queue "a": limit: its guarantee of 4 slots is above its limit of 3`},
		"a negative limit":              {[]Queue{q("a", func(q *Queue) { q.Limit = -1 })}, `queue "a": limit: -1 is out of range`},
		"no name":                       {[]Queue{q("", func(*Queue) {})}, `queue "": it has no name`},
		"a guarantee of any":            {[]Queue{q(Any, func(q *Queue) { q.Guarantee = 1 })}, `queue "*": guarantee: "*" stands for any number of namespaces`},
		"any inside of another":         {[]Queue{q("a", func(q *Queue) { q.Queues = []Queue{{Name: Any, Weight: 1}} })}, `queue "*": "*" stands for the namespaces`},
		"queues inside of any":          {[]Queue{q(Any, func(q *Queue) { q.Queues = []Queue{{Name: "a", Weight: 1}} })}, `queue "*": "*" makes a queue of each namespace`},
		"namespaces, and queues inside": {[]Queue{q("a", func(q *Queue) { q.PerNamespace, q.Queues = &Caps{}, []Queue{{Name: "b", Weight: 1}} })}, `queue "a": per_namespace: it makes a queue of each namespace`},
		"more for each than for all":    {[]Queue{q("a", func(q *Queue) { q.Limit, q.PerNamespace = 2, &Caps{Limit: 3} })}, `queue "a": per_namespace: a limit of 3 slots for each namespace is above that of the queue, 2`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := New(tc.queues)
			must.SliceNotEmpty(t, problems)
			must.True(t, strings.HasPrefix(problems[0].String(), tc.want), must.Sprint(problems))
		})
	}
	must.Eq(t, "0.25", thousandths(250))
	must.Eq(t, "2", thousandths(2000))
}

// A reservation raises the guarantees of its queue and of the queues around it while it
// lasts. Before that, its slots are lent only to jobs that can give them back.
func TestTree_Reservations(t *testing.T) {
	tr, problems := tree(t, teams()).With([]Reservation{{Name: "demo", Queue: "vision", Slots: 10, From: 100, Until: 200}})
	must.SliceEmpty(t, problems)
	at := func(now float64) (guarantees [3]int, later int, next float64) {
		l := tr.Layout()
		next = l.At(now)
		for i, name := range []string{"research", "vision", "speech"} {
			guarantees[i] = l.Nodes[l.byName[name]].Guarantee
		}
		return guarantees, l.Nodes[l.byName["vision"]].Later, next
	}
	for _, tc := range []struct {
		now        float64
		guarantees [3]int
		later      int
		next       float64
	}{{0, [3]int{32, 8, 0}, 10, 100}, {100, [3]int{42, 18, 0}, 0, 200}, {200, [3]int{32, 8, 0}, 0, 0}} {
		guarantees, later, next := at(tc.now)
		must.Eq(t, tc.guarantees, guarantees)
		must.Eq(t, tc.later, later)
		must.Eq(t, tc.next, next)
	}

	l := tr.Layout()
	l.At(0)
	other := l.Leaf("", "other")
	l.Fit(64)
	_, ok := l.Reserve(64, nil, true).Fits(other, 15)
	must.False(t, ok)
	_, ok = l.Reserve(64, nil, true).Fits(other, 14)
	must.True(t, ok)
	_, ok = l.Reserve(64, nil, false).Fits(other, 24)
	must.True(t, ok)
	demand := make([]Demand, len(l.Nodes))
	demand[other].Wanted = 64
	must.Eq(t, 64, l.Divide(64, demand)[other])
	must.Eq(t, 0, tr.WithoutReservations().Layout().At(0))
}

func TestTree_WrongReservations(t *testing.T) {
	good := Reservation{Name: "r", Queue: "vision", Slots: 10, From: 1, Until: 3}
	for name, tc := range map[string]struct {
		change func(r *Reservation)
		want   ReservationProblem
	}{
		"no such queue": {func(r *Reservation) { r.Queue = "x" }, ReservationProblem{"r", "queue", `there is no queue "x"`, "name one of the pool's queue blocks"}},
		"no slots":      {func(r *Reservation) { r.Slots = 0 }, ReservationProblem{"r", "slots", "0 is out of range", "write a number from 1 to 1000000"}},
		"no time":       {func(r *Reservation) { r.Until = 1 }, ReservationProblem{"r", "until", "it ends before it begins", "write a time after from"}},
		"above a limit": {func(r *Reservation) { r.Slots = 17 }, ReservationProblem{"r", "slots", `with it, queue "research" is guaranteed 49 slots, and its limit is 48`, "reserve less, or raise the limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			tc.change(&r)
			_, problems := tree(t, teams()).With([]Reservation{r})
			must.Eq(t, []ReservationProblem{tc.want}, problems)
		})
	}
	// Two at a time are above the limit, one after the other is not.
	_, problems := tree(t, teams()).With([]Reservation{good, {Name: "s", Queue: "speech", Slots: 10, From: 2, Until: 4}})
	must.Len(t, 1, problems)
	_, problems = tree(t, teams()).With([]Reservation{good, {Name: "s", Queue: "speech", Slots: 10, From: 3, Until: 4}})
	must.SliceEmpty(t, problems)
}
