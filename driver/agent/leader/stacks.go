// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// stacksTime is how long the leader waits for the stacks of a ring before it breaks the ring.
// It waits no longer than the ring has been without a step.
const stacksTime = 5 * time.Second

// inspection collects the stacks of the processes of a ring that is about to be broken.
type inspection struct {
	ring    wire.RingID
	number  int
	stepped time.Time // the ring's last step; a new step ends the inspection
	until   time.Time
	awaited map[elastic.HostID]bool // hosts that have not answered
	ranks   map[int]stacks.Rank
}

// inspecting reports whether the stacks of the ring are taken or were taken since its last
// step.
func (l *Leader) inspecting() bool {
	in := l.inspection
	return in != nil && in.ring == l.ring && in.stepped.Equal(l.stepped)
}

// inspected reports whether the ring may be broken: all its hosts have sent the stacks of
// their processes, or the time for that is over. The first call asks the hosts.
func (l *Leader) inspected(now time.Time) bool {
	if !l.inspecting() {
		l.inspect(now)
	}
	return len(l.inspection.awaited) == 0 || !now.Before(l.inspection.until)
}

// inspect asks the hosts of the ring for the stacks of their processes.
func (l *Leader) inspect(now time.Time) {
	limit := min(stacksTime, now.Sub(l.stepped))
	l.inspections++
	in := &inspection{ring: l.ring, number: l.inspections, stepped: l.stepped, until: now.Add(limit),
		awaited: map[elastic.HostID]bool{}, ranks: map[int]stacks.Rank{}}
	for _, id := range l.machine.Ring().Hosts() {
		if m := l.hosts[id]; m != nil && m.inspects {
			in.awaited[id] = true
			l.send(id, &wire.ToAgent{Inspect: &wire.Inspect{Ring: in.ring, Number: in.number, Within: limit.Seconds()}})
		}
	}
	l.inspection = in
}

// receiveStacks handles the stacks that a host has sent. A host speaks only for its own ranks.
func (l *Leader) receiveStacks(id elastic.HostID, m *wire.Inspected) {
	in, ring := l.inspection, l.machine.Ring()
	if in == nil || ring == nil || in.ring != l.ring || m.Ring != in.ring || m.Number != in.number {
		return
	}
	delete(in.awaited, id)
	for _, r := range m.Ranks {
		if r.Rank >= 0 && r.Rank < len(ring.Members) && ring.Members[r.Rank].Proc.Slot.Host == id {
			r.Brief()
			in.ranks[r.Rank] = r
		}
	}
}

// stacksTaken returns what the ranks of the ring do, or nil if no host has answered.
func (l *Leader) stacksTaken() *stacks.Summary {
	if !l.inspecting() || len(l.inspection.ranks) == 0 {
		return nil
	}
	var known []stacks.Rank
	var silent []int
	for rank := range l.machine.Ring().Members {
		if r, ok := l.inspection.ranks[rank]; ok {
			known = append(known, r)
		} else {
			silent = append(silent, rank)
		}
	}
	return stacks.Summarize(known, silent)
}
