// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// wait changes the demand for queues that have slots of their share held by others, and
// have not wanted them for their reclaim_after yet. Until then, such a queue has the slots
// that it holds and free ones, and no other queue gets more because of this. The time
// counts from the first decision in which the queue held less than its share. It does not
// depend on when a job claims to have arrived.
func (d *decision) wait(demand []queue.Demand) {
	shares := d.patient(demand)
	if shares == nil {
		return
	}
	capped := slices.Clone(demand)
	for _, m := range d.members {
		most := max(shares[m.leaf], m.now)
		if m.waits > 0 {
			most = m.gets
			demand[m.leaf].Wanted = max(m.firm, most)
		}
		capped[m.leaf].Wanted = max(m.firm, min(capped[m.leaf].Wanted, most))
	}
	for n, share := range d.layout.Divide(d.slots, capped) {
		demand[n].Firm = max(demand[n].Firm, share) // the rest goes to those that do not wait
		demand[n].Wanted = max(demand[n].Wanted, share)
	}
}

// patient finds the queues that wait for slots of their share. It returns the shares of all
// queues, or nil if no queue waits.
func (d *decision) patient(demand []queue.Demand) (shares []int) {
	var free *queue.Account
	for _, m := range d.members {
		after := d.longest(m.leaf, func(n *queue.Node) int { return n.ReclaimAfter })
		if after == 0 {
			continue
		}
		if shares == nil {
			shares, free = d.layout.Divide(d.slots, demand), d.holdings()
		}
		lacks := shares[m.leaf] - m.now
		if lacks <= 0 {
			continue
		}
		if m.since = m.before.Since; m.since == 0 || m.before.Owed > 0 && m.now >= m.before.Owed {
			m.since = d.s.Now
		}
		at := m.since + float64(after)
		if d.s.Now >= at {
			continue
		}
		d.wake(at)
		m.waits = after
		n := min(lacks, free.Room(m.leaf))
		free.Add(m.leaf, n)
		m.gets = m.now + n
	}
	if !slices.ContainsFunc(d.members, func(m *member) bool { return m.waits > 0 }) {
		return nil
	}
	return shares
}

// holdings returns an account of the slots that the leaves hold now.
func (d *decision) holdings() *queue.Account {
	now := make([]int, len(d.layout.Nodes))
	for _, m := range d.members {
		now[m.leaf] = m.now
	}
	return d.layout.Use(d.slots, now)
}

// longest returns the largest value of a setting among a leaf and the nodes above it.
func (d *decision) longest(leaf int, of func(*queue.Node) int) (longest int) {
	d.layout.Path(leaf, func(n int) bool {
		longest = max(longest, of(&d.layout.Nodes[n]))
		return true
	})
	return longest
}

// wanting returns the time since when a queue has wanted slots that others hold, or 0 if it
// wants none. owed is the number of slots that it has when it has got them back, or 0 while
// it still waits. A queue that left slots of its share unused wants none.
func (m *member) wanting() (since float64, owed int) {
	switch {
	case m.waits > 0:
		return m.since, 0
	case m.since == 0 || m.used < m.due:
		return 0, 0
	}
	return m.since, m.used
}

// patience explains to users why a queue does not have its share yet.
func (m *member) patience() string {
	if m.waits == 0 {
		return ""
	}
	return fmt.Sprintf("; it gets its share back after it has wanted it for %v", time.Duration(m.waits)*time.Second)
}
