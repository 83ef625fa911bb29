// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"math"
	"time"
)

// Period is a calendar period in UTC.
type Period string

// Periods of a budget. A week begins on Monday.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Start returns the start of the period that contains a time. Times are in Unix
// seconds.
func (p Period) Start(now float64) float64 {
	t := time.Unix(int64(math.Floor(now)), 0).UTC()
	y, m, d := t.Date()
	switch p {
	case Day:
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Month:
		d = 1
	}
	return float64(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix())
}

// End returns the end of the period that contains a time.
func (p Period) End(now float64) float64 {
	start := time.Unix(int64(p.Start(now)), 0).UTC()
	switch p {
	case Day:
		start = start.AddDate(0, 0, 1)
	case Week:
		start = start.AddDate(0, 0, 7)
	case Month:
		start = start.AddDate(0, 1, 0)
	}
	return float64(start.Unix())
}

// Budget limits how much a queue, including the queues inside it, may use in each calendar
// period.
type Budget struct {
	SlotHours float64 // each slot counts by its cost
	Per       Period
	// Stop is set if the queue gets nothing beyond its budget. Otherwise it gets what no
	// other queue wants.
	Stop bool
}

// Past holds the sums of a queue's past use that a division takes into account.
type Past struct {
	// Borrowed is the recent mean of the slots that the queue borrowed, and Cost the recent
	// mean of their cost, both in thousandths.
	Borrowed int `json:"borrowed,omitempty"`
	Cost     int `json:"cost,omitempty"`
	// Spent is the number of slot-hours used in the present period of the queue's budget.
	Spent float64 `json:"spent,omitempty"`
}

// pastWeight is the factor of the mean of the slots that a queue borrowed in the past, when
// it is added to the slots that the queue borrows now. If one of two queues wants slots
// only half of the time, it gets 42 % of the borrowed slot-hours; with a factor of 1, it
// would get a third. With a larger factor, a queue that was alone in the pool would get no
// borrowed slots for longer.
const pastWeight = 4

// mostPast is the largest value of Node.Past. It keeps products within 64 bits.
const mostPast = 4 * MostSlots * WeightUnit

// Key returns the unique key of a node. No other node of the pool ever has the same key.
func (l *Layout) Key(n int) string { return l.Nodes[n].key }

// Key returns the key of a queue that the operator has configured, as Layout.Key does.
func Key(name string) string { return "queue/" + name }

// Remembers reports whether divisions depend on the past.
func (t *Tree) Remembers() bool {
	if t.any.HalfLife > 0 {
		return true
	}
	for i := range t.nodes {
		if t.nodes[i].Remembers() {
			return true
		}
	}
	return false
}

// Remembers reports whether the queue's share depends on its past.
func (n *Node) Remembers() bool { return n.HalfLife > 0 || n.Budget != nil }

// WithHalfLife returns a copy of the tree that sets the half-life, in seconds, of
// namespaces that are in no configured queue.
func (t *Tree) WithHalfLife(seconds float64) *Tree {
	out := *t
	out.any.HalfLife = seconds
	return &out
}

// Remember adds the past of queues, by Key, to the layout. A queue that has spent its
// budget loses its guarantee, and so do the queues inside it. Call Remember after all
// leaves have been added.
func (l *Layout) Remember(past map[string]Past) {
	for n := range l.Nodes {
		node := &l.Nodes[n]
		p := past[node.key]
		if node.Budget != nil && p.Spent >= node.Budget.SlotHours*(1-1e-9) {
			node.Spent, node.Stopped = n, node.Budget.Stop
		}
		if node.Parent > 0 && l.Nodes[node.Parent].Spent > 0 {
			above := &l.Nodes[node.Parent]
			if node.Spent == 0 || above.Stopped {
				node.Spent, node.Stopped = above.Spent, node.Stopped || above.Stopped
			}
		}
		if node.Spent > 0 {
			node.Guarantee, node.Later, l.spent = 0, 0, true
		}
		l.compare(node.Children, past)
	}
}

// compare sets Past of siblings. The sum of their Past is pastWeight times the slots that
// they borrowed together, divided in proportion to the cost of what each borrowed. So only
// the ratio of costs matters.
func (l *Layout) compare(siblings []int, past map[string]Past) {
	slots, cost := 0.0, 0.0
	for _, n := range siblings {
		if p := past[l.Nodes[n].key]; l.Nodes[n].HalfLife > 0 {
			slots, cost = slots+float64(p.Borrowed), cost+float64(p.Cost)
		}
	}
	for _, n := range siblings {
		if p := past[l.Nodes[n].key]; l.Nodes[n].HalfLife > 0 && cost > 0 {
			l.Nodes[n].Past = int(min(math.Round(pastWeight*float64(p.Cost)*slots/cost), mostPast))
		}
	}
}

// Divide returns the number of slots that each node may use, by index. demand is indexed in
// the same way; only the entries of leaves count. Queues that have spent their budget get
// only slots that no other queue wants.
func (l *Layout) Divide(slots int, demand []Demand) []int {
	if !l.spent {
		return l.divide(slots, demand)
	}
	within := make([]Demand, len(l.Nodes))
	for n := range within {
		if n < len(demand) {
			within[n] = demand[n]
		}
		if l.Nodes[n].Spent > 0 {
			within[n].Wanted = within[n].Firm
		}
	}
	shares := l.divide(slots, within)
	for n := range within {
		wanted := shares[n]
		if node := &l.Nodes[n]; node.Spent > 0 && !node.Stopped && n < len(demand) {
			wanted = max(wanted, demand[n].Wanted)
		}
		within[n] = Demand{Firm: shares[n], Wanted: wanted}
	}
	return l.divide(slots, within)
}
