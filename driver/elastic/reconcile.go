// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// reconcile compares what is with what should be and acts on the difference.
// It is level-triggered: an action that was missed is due again.
func (m *Machine) reconcile() {
	if m.ended {
		return
	}
	if m.outcome == nil {
		if !m.quorum.OK {
			// What this leader knows may be old. Training goes on.
			return
		}
		if m.ring != nil && m.resend {
			m.resend = false
			m.do(Form{Ring: m.ring.clone()})
		}
		if m.ring != nil {
			m.watch()
		}
		if m.ring != nil {
			m.pursue()
		} else {
			m.gather()
		}
	}
	if m.outcome != nil {
		m.finish()
		return
	}
	m.release()
}

// watch looks after the present ring: is it forming, training, dissolving?
func (m *Machine) watch() {
	r := m.ring
	var in, out, dead int
	allUp, saved := true, false
	var standIn *Member
	for i, mem := range r.Members {
		s := m.proc(mem.Proc)
		switch {
		case s == nil || s.gen != r.Generation || s.state == Starting || s.state == Arrived:
			dead++
		case s.state == Waiting:
			out++
			saved = saved || s.since > 0
		default:
			in++
			if s.standIn {
				standIn = &r.Members[i]
				continue
			}
			allUp = allUp && s.up
		}
	}
	if dead == 0 && out == 0 && m.dissolving.IsZero() {
		switch {
		case allUp && standIn != nil:
			m.stop(standIn.Proc, true, "it stood in for rank 0 of ring %d", r.Generation)
		case allUp && m.up.IsZero():
			m.up = m.now
		}
		if !allUp && m.wake(m.formed.Add(m.opt.FormTimeout)) {
			m.stopMembers(func(s *slot) bool { return !s.up }, "it did not finish the rendezvous of ring %d in %s", r.Generation, m.opt.FormTimeout)
		}
		return
	}
	if m.dissolving.IsZero() {
		m.dissolving = m.now
		if !m.up.IsZero() && m.now.Sub(m.up) >= m.grace() {
			m.synced()
		}
	}
	if !m.broken && (dead > 0 || m.notified.IsZero()) {
		m.broken = true
		m.do(Break{Generation: r.Generation})
	}
	if in == 0 {
		if !m.broken {
			// Not before all have left, alive: the first may have left because
			// rank 0 died while it handed out the state, of which the leader
			// hears later.
			m.synced()
		}
		m.ring = nil
		m.short = time.Time{}
		return
	}
	if m.broken && m.wake(m.dissolving.Add(2*time.Second)) {
		// A process that is still connecting can't recover; see HTTPStore and
		// GlooContext::Initialize in Horovod.
		m.stopMembers(func(s *slot) bool { return !s.up }, "ring %d broke while it formed", r.Generation)
	}
	patience := m.opt.BarrierTimeout
	if m.patience > 0 && saved {
		patience = m.patience
	}
	if m.wake(m.dissolving.Add(patience)) {
		m.stopMembers(func(*slot) bool { return true }, "it did not leave ring %d in %s", r.Generation, patience)
	}
}

// grace is the age at which a ring counts as synced without other evidence.
// Where the script reports its steps, this ring has not made one yet: a large
// state may still be on its way. But a script may also report once in an epoch.
func (m *Machine) grace() time.Duration {
	if m.reports {
		return 10 * m.opt.SyncGrace
	}
	return m.opt.SyncGrace
}

// stopMembers kills the members still in the ring that match.
func (m *Machine) stopMembers(match func(*slot) bool, format string, args ...any) {
	for _, mem := range m.ring.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && match(s) {
			m.stop(mem.Proc, true, format, args...)
		}
	}
}

// sorted returns the hosts in the order in which they get ranks: those that
// hold the state longest first, then as in the last ring, then by group and
// index.
func (m *Machine) sorted() []*host {
	position := map[HostID]int{}
	for i, id := range m.last.Hosts() {
		position[id] = i
	}
	at := func(h *host) int {
		if i, ok := position[h.id]; ok {
			return i
		}
		return math.MaxInt
	}
	hosts := make([]*host, 0, len(m.hosts))
	for _, h := range m.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.age(), b.age()), cmp.Compare(at(a), at(b)),
			cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id))
	})
	return hosts
}

// age is the lowest generation since which one of the host's slots holds the
// state.
func (h *host) age() uint64 {
	age := uint64(math.MaxUint64)
	for i := range h.slots {
		if s := &h.slots[i]; s.since > 0 && s.state != Down && !s.stopping {
			age = min(age, s.since)
		}
	}
	return age
}

// layout is the ring that the slots accepted by ok would form. Of each host it
// takes the slots from 0 up to the first that is not accepted: Horovod needs
// local ranks without a hole, and a script's GPU is its local rank, so slots
// are not renumbered. Only those that are about to go are, where the slot that
// is missing will not be started again.
func (m *Machine) layout(ok func(*host, *slot) bool) []Member { return m.layoutMax(ok, m.opt.MaxNP) }

func (m *Machine) layoutMax(ok func(*host, *slot) bool, room int) []Member {
	var hosts [][]place
	for _, h := range m.sorted() {
		var places []place
		for l := range h.slots {
			s := &h.slots[l]
			if s.stopping && !s.restage || !ok(h, s) {
				if h.staying() && !s.leaving {
					break
				}
				continue
			}
			inc := s.inc
			if s.state == Down || s.restage {
				inc++
			}
			places = append(places, place{proc: Proc{Slot: SlotID{h.id, l}, Incarnation: inc}, since: s.since})
		}
		if len(places) > 0 {
			hosts = append(hosts, places)
		}
	}
	// A host whose oldest slot is not among its places does not come first.
	slices.SortStableFunc(hosts, func(a, b []place) int { return cmp.Compare(oldest(a), oldest(b)) })
	if room > 0 {
		for i, h := range hosts {
			hosts[i] = h[:min(len(h), room)]
			room -= len(hosts[i])
		}
		hosts = slices.DeleteFunc(hosts, func(h []place) bool { return len(h) == 0 })
	}
	return assign(hosts)
}

func oldest(places []place) uint64 {
	age := uint64(math.MaxUint64)
	for _, p := range places {
		age = min(age, p.age())
	}
	return age
}

// live accepts slots that need no start: in the ring, or waiting for one.
func live(_ *host, s *slot) bool { return s.state == InRing || s.state == Waiting }

// usable accepts live slots and newcomers that were admitted.
func (m *Machine) usable(h *host, s *slot) bool {
	return live(h, s) || s.admitted && (s.state != Down || !m.now.Before(s.retry))
}

func staying(ok func(*host, *slot) bool) func(*host, *slot) bool {
	return func(h *host, s *slot) bool { return h.staying() && !s.leaving && ok(h, s) }
}

// admit takes newcomers into the next ring: together, when no more came for a
// while, and not while others are well on their way, who would have to start
// again.
func (m *Machine) admit() {
	open := m.ring == nil && len(m.layout(staying(m.usable))) < m.opt.MinNP
	if !open {
		open = m.notStarting()
	}
	if !open {
		return
	}
	var fresh []*slot
	m.each(func(h *host, _ Proc, s *slot) {
		if s.state == Down && !s.admitted && h.staying() && !s.leaving && m.wake(s.retry) {
			fresh = append(fresh, s)
		}
	})
	if len(fresh) == 0 {
		m.pending = time.Time{}
		return
	}
	if m.pending.IsZero() {
		m.pending = m.now
	}
	quiet, latest := m.lastJoin.Add(m.opt.Settle), m.pending.Add(5*m.opt.Settle)
	if latest.Before(quiet) {
		quiet = latest
	}
	if m.wake(quiet) {
		for _, s := range fresh {
			s.admitted = true
		}
		m.pending = time.Time{}
	}
}

// notStarting says that no newcomer is well on its way.
func (m *Machine) notStarting() bool {
	open := true
	m.each(func(_ *host, _ Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && m.now.Sub(s.started) > m.opt.Settle {
			open = false
		}
	})
	return open
}

// admitHolders takes back dead slots of hosts that hold the state: while they
// are missing the slots above them can't be used.
func (m *Machine) admitHolders() {
	m.each(func(h *host, _ Proc, s *slot) {
		if h.staying() && !s.leaving && h.age() != math.MaxUint64 && s.state == Down && m.wake(s.retry) {
			s.admitted = true
		}
	})
}

// fresh says whether a member needs to be started or has not been let in.
func (m *Machine) fresh(mem Member) bool {
	s := m.slot(mem.Proc.Slot)
	return s.state != InRing && s.state != Waiting
}

// stage starts the newcomers of a planned ring with their ranks and says
// whether all of them have arrived. A newcomer started for another place is
// ended; it is started again when it is gone.
func (m *Machine) stage(plan []Member) bool {
	all := true
	planned := map[SlotID]bool{}
	for _, mem := range plan {
		planned[mem.Proc.Slot] = true
		if !m.fresh(mem) {
			continue
		}
		s := m.slot(mem.Proc.Slot)
		switch {
		case s.state == Down:
			s.inc, s.state, s.assign, s.started = mem.Proc.Incarnation, Starting, mem.Assignment, m.now
			m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment})
			all = false
		case s.stopping:
			all = false
		case s.assign != mem.Assignment:
			m.stop(mem.Proc, true, "the ring it was started for has changed")
			s.restage, all = true, false
		case s.state == Starting:
			all = false
			if m.wake(s.started.Add(m.opt.StageTimeout)) {
				m.overdue(mem.Proc, s)
			}
		}
	}
	m.each(func(_ *host, p Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && !planned[p.Slot] {
			m.stop(p, true, "it is not needed")
		}
	})
	return all
}

func (m *Machine) overdue(p Proc, s *slot) {
	m.stop(p, true, "it did not reach Horovod's rendezvous in %s", m.opt.StageTimeout)
	s.fail(m.now)
	h := m.hosts[p.Slot.Host]
	m.tell(h.id, "slot %d did not reach Horovod's rendezvous in %s", p.Slot.Local, m.opt.StageTimeout)
	if s.failures > m.opt.SlotRestarts {
		h.failed, h.why = true, fmt.Sprintf("slot %d does not reach Horovod's rendezvous", p.Slot.Local)
	}
}

func sameSlots(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(x, y Member) bool { return x.Proc.Slot == y.Proc.Slot })
}

// pursue works towards a better ring while the present one trains.
func (m *Machine) pursue() {
	if !m.dissolving.IsZero() {
		return
	}
	m.admit()
	want := m.layout(staying(m.usable))
	leaving := false
	for _, mem := range m.ring.Members {
		if h := m.hosts[mem.Proc.Slot.Host]; h != nil && (!h.staying() || m.slot(mem.Proc.Slot).leaving) {
			leaving = true
		}
	}
	switch remain := m.layout(staying(live)); {
	case !leaving:
		m.leaveFrom = time.Time{}
		if m.stage(want) && !sameSlots(want, m.ring.Members) {
			m.notify()
		}
	case len(remain) >= m.opt.MinNP:
		// Those who leave go at once; newcomers, unless they have all
		// arrived, start again for the smaller ring.
		m.notify()
	default:
		// Too few would remain: those who leave stay until others have come
		// and been given the state.
		over := m.overlap()
		if m.stage(over) && (!sameSlots(over, m.ring.Members) || m.letGo()) {
			m.notify()
		}
	}
}

// overlap is the ring of those who stay and of those who leave, so that the
// state is handed over. Where max_np leaves no room for all, fewer of those
// who leave are kept, but one at least that holds the state.
func (m *Machine) overlap() []Member {
	room, most := math.MaxInt, 0
	var holder *slot
	if m.opt.MaxNP > 0 {
		most = max(m.opt.MaxNP, 2)
		stay := m.layout(staying(m.usable))
		room = m.opt.MaxNP - len(stay)
		if !m.holdsState(stay) {
			if holder = m.leavingHolder(); holder != nil {
				room--
			}
		}
	}
	return m.layoutMax(func(h *host, s *slot) bool {
		switch {
		case h.staying() && !s.leaving:
			return m.usable(h, s)
		case s == holder:
			return true
		case !live(h, s) || room <= 0:
			return false
		}
		room--
		return true
	}, most)
}

// leavingHolder returns the slot that holds the state longest of those that
// leave, or nil.
func (m *Machine) leavingHolder() *slot {
	var holder *slot
	m.each(func(h *host, _ Proc, s *slot) {
		if (!h.staying() || s.leaving) && live(h, s) && !s.stopping && s.since > 0 && (holder == nil || s.since < holder.since) {
			holder = s
		}
	})
	return holder
}

// letGo says whether hosts that leave need not wait for others any more: all
// leave, and nobody came.
func (m *Machine) letGo() bool {
	for _, h := range m.hosts {
		if !h.leaving {
			return false
		}
	}
	return m.wake(m.leaveFrom.Add(m.opt.LeaveGrace))
}

// notify tells rank 0 that there is a change, again and again until a member
// leaves the ring: Horovod drops notices that come at a bad moment
// (horovod/common/elastic.py, on_reset).
func (m *Machine) notify() {
	if m.up.IsZero() && !m.wake(m.formed.Add(5*time.Second)) {
		return
	}
	mem := m.ring.Members[0]
	if s := m.proc(mem.Proc); s == nil || !s.notifiable {
		if m.wake(m.formed.Add(m.opt.SyncGrace)) && !m.muteTold {
			m.muteTold = true
			m.tell(mem.Proc.Slot.Host, "the ring can't be resized: rank 0 has not entered hvd.elastic.run; does the script use it?")
		}
		return
	}
	if m.notified.IsZero() || m.wake(m.notified.Add(m.opt.NotifyInterval)) {
		m.notified = m.now
		m.wake(m.now.Add(m.opt.NotifyInterval))
		m.do(Notify{Proc: mem.Proc, Generation: m.ring.Generation})
	}
}

// holdsState says whether rank 0 of the plan holds the training state.
func (m *Machine) holdsState(plan []Member) bool {
	return len(plan) > 0 && m.slot(plan[0].Proc.Slot).since > 0
}

// gather forms the next ring when there is none.
func (m *Machine) gather() {
	alive := false
	m.each(func(_ *host, _ Proc, s *slot) { alive = alive || s.since > 0 && s.state != Down && !s.stopping })
	if !alive {
		m.gatherAnew()
		return
	}
	for _, plan := range [][]Member{
		m.layout(staying(m.usable)),  // all who stay, if the newcomers among them are there
		m.layout(staying(live)),      // else those who stay and are there
		m.handOver(),                 // else also those who leave
		m.layoutIf(!m.letGo(), live), // else whoever is there, until somebody comes
	} {
		if len(plan) >= m.opt.MinNP && m.holdsState(plan) && m.here(plan) {
			m.form(plan)
			return
		}
	}
	// Too few. Those who wait keep the state while newcomers start.
	m.admit()
	m.admitHolders()
	want := m.layout(staying(m.usable))
	if !m.holdsState(want) {
		want = m.handOver()
	}
	if !m.holdsState(want) {
		want = nil // and can't form, however many they are
	}
	if len(want) >= m.opt.MinNP {
		m.stage(want)
	}
	m.waitFor(m.opt.MinNP, len(want))
}

// handOver is the ring with those who leave, to hand over the state, while
// they wait for others.
func (m *Machine) handOver() []Member {
	if m.letGo() {
		return nil
	}
	return m.overlap()
}

func (m *Machine) layoutIf(cond bool, ok func(*host, *slot) bool) []Member {
	if !cond {
		return nil
	}
	return m.layout(ok)
}

// here says whether a plan needs nobody who has not arrived for this very
// place.
func (m *Machine) here(plan []Member) bool {
	for _, mem := range plan {
		s := m.slot(mem.Proc.Slot)
		if m.fresh(mem) && (s.state != Arrived || s.stopping || s.assign != mem.Assignment) {
			return false
		}
	}
	return true
}

// gatherAnew forms a ring when nobody holds the state: the first one, or one
// after the state was lost.
func (m *Machine) gatherAnew() {
	m.admit()
	need := m.opt.NP
	if m.last != nil {
		if !m.anyStaying() {
			return // the job is being stopped
		}
		if m.opt.OnRingLost == Fail {
			m.decide(End{Reason: fmt.Sprintf("no process that holds the training state is left after ring %d; "+
				"set on_ring_lost = \"restart\" for a script that resumes from its own checkpoint", m.last.Generation)})
			return
		}
		need = m.opt.MinNP
		// Who waits holds an old state, or none: the script must load its
		// checkpoint.
		m.each(func(_ *host, p Proc, s *slot) {
			if s.state == Waiting {
				m.stop(p, true, "the training state is lost; starting again from the script's checkpoint")
			}
		})
	}
	want := m.layout(staying(m.usable))
	if len(want) < need {
		m.waitFor(need, len(want))
		return
	}
	m.short = time.Time{}
	if m.stage(want) {
		m.form(want)
	}
}

func (m *Machine) anyStaying() bool {
	for _, h := range m.hosts {
		if h.staying() {
			return true
		}
	}
	return false
}

// waitFor ends the job when too few processes have been there for too long.
func (m *Machine) waitFor(need, have int) {
	if have >= need {
		m.short = time.Time{}
		return
	}
	if m.short.IsZero() {
		m.short = m.now
	}
	if m.wake(m.short.Add(m.opt.ElasticTimeout)) && len(m.hosts) > 0 {
		m.decide(End{Reason: fmt.Sprintf("waited %s for %d processes, there are %d (elastic_timeout)", m.opt.ElasticTimeout, need, have)})
	}
}

// form makes the plan the ring.
func (m *Machine) form(plan []Member) {
	gen := m.opt.Floor + 1
	anew := !m.holdsState(plan)
	if m.last != nil {
		gen = max(gen, m.last.Generation+1)
		if m.opt.ResetLimit > 0 && m.resets >= m.opt.ResetLimit {
			m.decide(End{Reason: fmt.Sprintf("Horovod was shutdown because number of resets during elastic job exceeded limit: %d", m.opt.ResetLimit)})
			return
		}
		m.resets++
	}
	for i := range plan {
		s := m.slot(plan[i].Proc.Slot)
		s.state, s.gen, s.up = InRing, gen, false
		if anew {
			s.since, plan[i].Since = gen, gen
		}
	}
	m.ring = &Ring{Generation: gen, Term: m.term, Members: plan}
	m.last = m.ring
	m.each(func(_ *host, _ Proc, s *slot) {
		if s.state == Waiting {
			s.since = 0 // the ring trains on without it
		}
	})
	m.formed, m.up, m.dissolving, m.notified, m.short = m.now, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	m.broken, m.patience = false, 0
	m.wake(m.now.Add(m.opt.FormTimeout))
	m.do(Form{Ring: m.ring.clone()})
}

// release ends what hosts that leave have no more use for, and lets them go
// when nothing of theirs runs.
func (m *Machine) release() {
	for _, h := range m.sorted() {
		if h.dismissed {
			continue
		}
		running := false
		for l := range h.slots {
			s := &h.slots[l]
			p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}
			member := m.ring.Find(p.Slot)
			switch {
			case s.state == Down || h.staying() && !s.leaving:
				continue
			case s.state == Starting || s.state == Arrived:
				m.stop(p, true, "its host leaves")
			case s.state == Waiting && (m.ring != nil && (member == nil || member.Proc != p) || m.ring == nil && m.letGo()):
				m.stop(p, true, "its host leaves")
			}
			running = true
		}
		if !running && !h.staying() {
			h.dismissed = true
			m.do(Dismiss{Host: h.id, Failed: h.failed && !h.leaving, Reason: cmp.Or(h.why, "its processes have left the ring")})
		}
	}
}

// finish brings all processes to an end once the outcome is decided. After
// success the others get time to end by themselves: rank 0 may still write its
// last checkpoint.
func (m *Machine) finish() {
	grace := m.outcome.Success && !m.wake(m.decidedAt.Add(m.opt.FinishTimeout))
	running := false
	m.each(func(_ *host, p Proc, s *slot) {
		if s.state == Down {
			return
		}
		running = true
		switch {
		case s.state == Waiting:
			m.stop(p, true, "%s", m.outcome.Reason)
		case s.state != InRing || !grace:
			m.stop(p, false, "%s", m.outcome.Reason)
		}
	})
	if !running {
		m.ended = true
		m.do(*m.outcome)
	}
}
