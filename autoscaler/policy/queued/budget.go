// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"fmt"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// leftover returns the slots of each leaf if all jobs grow as far as they can. It returns
// nil if no candidate is in a queue that has spent its budget, because only such
// candidates need it.
func (d *decision) leftover(candidates []candidate) []int {
	demand := make([]queue.Demand, len(d.layout.Nodes))
	for _, m := range d.members {
		demand[m.leaf] = queue.Demand{Firm: m.firm, Wanted: m.wanted()}
	}
	spent := false
	for i := range candidates {
		c := &candidates[i]
		demand[c.leaf].Wanted += c.job.Max * max(1, c.job.PerWorker)
		spent = spent || d.layout.Nodes[c.leaf].Spent > 0
	}
	if !spent {
		return nil
	}
	return d.layout.Divide(d.slots, demand)
}

// unpaid reports whether a job waits because its queue has spent its budget. Either the
// queue gets no slots, or the job could not give back its minimum, which queues within
// their budgets want now.
func (d *decision) unpaid(c *candidate, firm, leftover []int) bool {
	node := &d.layout.Nodes[c.leaf]
	return node.Stopped || node.Spent > 0 && !c.job.Preemptible && firm[c.leaf]+c.least > leftover[c.leaf]
}

// spent states which queue has spent its budget, for a leaf in that queue.
func (d *decision) spent(m *member) string {
	if m.spent == "" {
		m.spent = d.describeSpent(&d.layout.Nodes[m.leaf])
	}
	return m.spent
}

func (d *decision) describeSpent(node *queue.Node) string {
	at := node.Spent
	b := d.layout.Nodes[at].Budget
	then := "it gets only what no other queue wants"
	if node.Stopped {
		then = "it gets no slots"
	}
	until := time.Unix(int64(b.Per.End(d.s.Now)), 0).UTC().Format(time.DateOnly)
	return fmt.Sprintf("%s has used %s of the %s slot-hours of its budget for this %s; until %s UTC %s",
		d.label(at), hours(d.s.Past[d.layout.Key(at)].Spent), hours(b.SlotHours), b.Per, until, then)
}

// hours shows a number of slot-hours.
func hours(h float64) string {
	if h >= 100 {
		return fmt.Sprintf("%.0f", h)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", h), "0"), ".")
}
