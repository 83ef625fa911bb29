// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// mostRounds bounds how often what is left is lent in one decision. In each round, queues
// that want no more drop out; a few rounds are enough in practice.
const mostRounds = 8

// divide gives the leaves their slots, and asks their policies, until nothing is left or
// no one has use for it.
func (d *decision) divide() {
	demand := make([]queue.Demand, len(d.layout.Nodes))
	for _, m := range d.members {
		demand[m.leaf] = queue.Demand{Firm: m.firm, Wanted: m.wanted()}
	}
	d.wait(demand)
	for round := range mostRounds {
		if round > 0 && !d.lend(demand) {
			break
		}
		for _, m := range d.spread(d.layout.Divide(d.slots, demand)) {
			if len(m.jobs) == 0 {
				m.used = m.fixed
				continue
			}
			d.ask(m)
		}
	}
}

// wanted returns the slots that a leaf could use by the bounds of its jobs. They include
// those of its head, so that no job that passes the head relies on them.
func (m *member) wanted() int {
	n := m.fixed
	if m.head != nil {
		n += m.head.least
	}
	for i := range m.jobs {
		j := &m.jobs[i]
		n += max(j.Sizes.AtMost(j.Max), j.Sizes.Above(max(1, j.Min)-1)) * max(1, j.PerWorker)
	}
	return n
}

// lend raises and lowers the demand after the policies have answered: what a leaf left it
// has no use for, except to start or grow a job that needs more at once. It returns false
// if nothing is to be lent.
func (d *decision) lend(demand []queue.Demand) bool {
	left, used := d.slots, make([]int, len(d.layout.Nodes))
	for _, m := range d.members {
		left -= m.used
		used[m.leaf] = m.used
	}
	if left <= 0 {
		return false
	}
	before := slices.Clone(demand)
	account := d.layout.Use(d.slots, used)
	var gangs []*gang
	for _, m := range d.members {
		of := &demand[m.leaf]
		of.Firm = max(m.firm, m.used)
		if m.used >= m.share {
			continue
		}
		of.Wanted = of.Firm
		if g := m.gang(); g != nil {
			gangs = append(gangs, g)
		}
	}
	slices.SortStableFunc(gangs, (*gang).compare)
	for given := true; given; {
		given = false
		for _, g := range gangs {
			if len(g.needs) == 0 || g.needs[0] > left {
				continue
			}
			n := g.needs[0]
			if _, fits := account.Fits(g.leaf, n); !fits {
				g.needs = nil
				continue
			}
			account.Add(g.leaf, n)
			demand[g.leaf].Firm += n
			demand[g.leaf].Wanted += n
			left, g.needs, given = left-n, g.needs[1:], true
		}
	}
	return !slices.Equal(before, demand)
}

// gang is a leaf whose jobs need more slots at once than it had left.
type gang struct {
	*member
	needs  []int   // slots, in order
	holds  bool    // it holds workers now that it would lose
	oldest float64 // arrival of the first of the jobs
}

// compare puts first what keeps running, and then what came first.
func (g *gang) compare(o *gang) int {
	if g.holds != o.holds {
		if g.holds {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(g.oldest, o.oldest), cmp.Compare(g.leaf, o.leaf))
}

// gang returns what the jobs of a leaf need that did not fit into what it had, nil if
// its policy had slots for them and did not give them.
func (m *member) gang() *gang {
	room := m.share - m.used
	g := &gang{member: m, holds: m.now > m.used}
	step := 0
	var later []int
	for k := range m.jobs {
		if m.hidden != nil && m.hidden[k] {
			continue
		}
		j, n := &m.jobs[k], m.answer.Allocations[k].Count
		per := max(1, j.PerWorker)
		if next := j.Sizes.Above(max(n, j.Min-1, 0)); next > 0 && next <= j.Max {
			switch need := (next - n) * per; {
			case n > 0 && (step == 0 || need < step):
				step = need
			case n > 0:
			case j.Count > 0:
				g.needs = append(g.needs, need)
			default:
				later = append(later, need)
			}
			if n == 0 && (g.oldest == 0 || j.Submit < g.oldest) {
				g.oldest = j.Submit
			}
		}
	}
	g.needs = append(g.needs, later...)
	if len(g.needs) == 0 && step > 0 {
		g.needs = []int{step}
	}
	if len(g.needs) == 0 || slices.Min(g.needs) <= room {
		return nil
	}
	return g
}
