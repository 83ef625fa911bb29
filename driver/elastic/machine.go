// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

type slot struct {
	state      SlotState
	inc        int
	assign     Assignment // what a Starting or Arrived process was started for
	gen        uint64     // last ring it was let into
	since      uint64     // generation since which it holds the state, 0 when it does not
	up         bool       // finished the rendezvous of its ring
	notifiable bool
	leaving    bool // its host does not offer it any more
	stopping   bool // told to stop
	restage    bool // and to be started again for another place
	standIn    bool // helps the others through the rendezvous; see Start
	admitted   bool // taken into the present round of newcomers
	started    time.Time
	failures   int
	failed     time.Time // time of the last failure
	retry      time.Time // not to be started before
}

// fail counts a failure.
func (s *slot) fail(now time.Time) {
	s.failures = Forgive(s.failures, now.Sub(s.failed)) + 1
	s.failed = now
}

type host struct {
	id        HostID
	group     string
	index     int
	slots     []slot
	known     bool // has registered; else it stands in for a host of an adopted ring
	leaving   bool
	failed    bool   // to be given back to Nomad
	why       string // reason of failed
	deadline  time.Time
	dismissed bool
}

// staying says whether the host may hold slots of a ring to come.
func (h *host) staying() bool { return !h.leaving && !h.failed }

// Machine is the membership state machine of one job. Use New.
type Machine struct {
	opt   Options
	term  uint64
	now   time.Time
	hosts map[HostID]*host

	ring *Ring // the ring that trains, forms or dissolves; nil between rings
	last *Ring // the newest ring ever

	formed     time.Time     // ring was formed
	up         time.Time     // all its members finished the rendezvous
	dissolving time.Time     // its first member left
	broken     bool          // it lost a member
	patience   time.Duration // for members that do not leave it
	resend     bool          // some of its hosts may not have heard of it
	notified   time.Time     // last notice; zero: none in this ring
	muteTold   bool          // said that rank 0 can't be notified

	short     time.Time // since when there are too few slots
	pending   time.Time // first newcomer not yet admitted
	lastJoin  time.Time // latest of them
	leaveFrom time.Time // first host of the present ring to leave

	reports   bool // the script reports its steps
	quorum    Quorum
	resets    int
	outcome   *End // decided, processes are being ended
	decidedAt time.Time
	ended     bool

	wakeAt  time.Time
	actions []Action
}

// New returns a machine for the leader of the given term. It starts empty:
// hosts that register tell it what it must know.
func New(opt Options, term uint64) *Machine {
	opt.setDefaults()
	return &Machine{opt: opt, term: term, hosts: map[HostID]*host{}, quorum: Quorum{OK: true}}
}

// Step takes in one event and returns what is to be done, in order. now must
// not go backwards; where it does, the machine's time stands still.
func (m *Machine) Step(now time.Time, ev Event) []Action {
	if now.After(m.now) {
		m.now = now
	}
	m.wakeAt, m.actions = time.Time{}, nil
	m.apply(ev)
	m.reconcile()
	return m.actions
}

// Deadline is when the machine wants a Tick, zero when never.
func (m *Machine) Deadline() time.Time { return m.wakeAt }

// Ring returns the ring that trains, forms or dissolves now, or nil.
func (m *Machine) Ring() *Ring { return m.ring }

// Last returns the newest ring there was, or nil.
func (m *Machine) Last() *Ring { return m.last }

// Up says whether all members of the present ring finished the rendezvous.
func (m *Machine) Up() bool { return m.ring != nil && !m.up.IsZero() && m.dissolving.IsZero() }

// Ending says that the job's outcome is decided: its processes are brought to an
// end, and make no steps.
func (m *Machine) Ending() bool { return m.outcome != nil }

// Resets is how many rings replaced an earlier one.
func (m *Machine) Resets() int { return m.resets }

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) tell(h HostID, format string, args ...any) {
	m.do(Story{Host: h, Text: fmt.Sprintf(format, args...)})
}

// wake asks for a Tick at t, or says whether t has come.
func (m *Machine) wake(t time.Time) bool {
	if !m.now.Before(t) {
		return true
	}
	if m.wakeAt.IsZero() || t.Before(m.wakeAt) {
		m.wakeAt = t
	}
	return false
}

func (m *Machine) slot(s SlotID) *slot {
	h := m.hosts[s.Host]
	if h == nil || s.Local < 0 || s.Local >= len(h.slots) {
		return nil
	}
	return &h.slots[s.Local]
}

// proc returns the slot that runs p now, nil when p is gone.
func (m *Machine) proc(p Proc) *slot {
	s := m.slot(p.Slot)
	if s == nil || s.inc != p.Incarnation || s.state == Down {
		return nil
	}
	return s
}

func (m *Machine) stop(p Proc, kill bool, format string, args ...any) {
	s := m.proc(p)
	if s == nil || s.stopping {
		return
	}
	s.stopping = true
	m.do(Stop{Proc: p, Kill: kill, Reason: fmt.Sprintf(format, args...)})
}

// each calls f for every slot in a fixed order.
func (m *Machine) each(f func(h *host, p Proc, s *slot)) {
	for _, h := range m.sorted() {
		for l := range h.slots {
			s := &h.slots[l]
			f(h, Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}, s)
		}
	}
}

func (m *Machine) apply(ev Event) {
	switch ev := ev.(type) {
	case HostJoined:
		m.join(ev.Info)
	case HostLeaving:
		m.leave(ev)
	case HostSlots:
		if h := m.hosts[ev.Host]; h != nil {
			for len(h.slots) < ev.Slots {
				h.slots = append(h.slots, slot{})
				m.lastJoin = m.now
			}
			for l := range h.slots {
				h.slots[l].leaving = l >= ev.Slots
			}
		}
	case HostLost:
		delete(m.hosts, ev.Host)
		if slices.Contains(m.ring.Hosts(), ev.Host) {
			m.notified = time.Time{} // who leaves the ring from now on may have lost its connections, too
		}
	case SlotArrived:
		if s := m.proc(ev.Proc); s != nil && s.state == Starting {
			s.state = Arrived
		}
	case SlotWaiting:
		m.waiting(ev)
	case SlotUp:
		if s := m.proc(ev.Proc); s != nil && s.state == InRing && s.gen == ev.Generation {
			s.up = true
		}
	case SlotNotifiable:
		if s := m.proc(ev.Proc); s != nil {
			s.notifiable = true
		}
	case Trained:
		m.reports = true
		if m.ring != nil && m.ring.Generation == ev.Generation {
			m.synced()
		}
	case Stalled:
		if m.Up() && m.ring.Generation == ev.Generation {
			// Those that do not hang notice and leave the ring; the others
			// are killed.
			m.dissolving, m.broken, m.patience = m.now, true, stallPatience
			m.do(Break(ev))
		}
	case SlotExited:
		m.exited(ev)
	case Quorum:
		if !ev.OK && m.quorum.OK {
			m.tell("", "no new ring for now: %s", ev.Reason)
		}
		m.quorum = ev
	case Tick:
	}
}

func (m *Machine) leave(ev HostLeaving) {
	h := m.hosts[ev.Host]
	if h == nil || h.leaving {
		return
	}
	h.leaving, h.deadline = true, ev.Deadline
	if m.leaveFrom.IsZero() {
		m.leaveFrom = m.now
	}
}

// waiting takes in a process that asks for its next rank.
func (m *Machine) waiting(ev SlotWaiting) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	if s.state == InRing && ev.Generation < s.gen {
		// It asked before it heard of the ring it is in.
		m.do(Form{Ring: m.last.clone(), Hosts: []HostID{ev.Proc.Slot.Host}})
		return
	}
	s.state, s.gen, s.up = Waiting, ev.Generation, false
}

// synced notes that every member of the ring holds the state. What shows it:
// a step that was reported, or that all members, alive, left the ring because of
// a notice, which Horovod takes in at a commit, after the state was broadcast.
func (m *Machine) synced() {
	news := false
	for _, mem := range m.ring.Members {
		if s := m.proc(mem.Proc); s != nil && s.gen == m.ring.Generation && s.since == 0 {
			s.since, news = m.ring.Generation, true
		}
	}
	if news {
		m.do(Synced{Generation: m.ring.Generation})
	}
}

// join takes in a host that registers, or registers again, with all it knows.
func (m *Machine) join(info HostInfo) {
	if m.ended {
		m.do(*m.outcome)
		return
	}
	h := m.hosts[info.ID]
	if h == nil {
		h = &host{id: info.ID}
		m.hosts[info.ID] = h
	}
	h.group, h.index, h.known = info.Group, info.Index, true
	h.dismissed = false // what it was told may have been lost with its session
	if info.Leaving {
		m.leave(HostLeaving{Host: info.ID})
	}
	if info.Dropped && h.staying() {
		h.failed, h.why = true, "Nomad has given this allocation up"
	}
	m.resets = max(m.resets, info.Resets)
	m.adopt(info.Ring)
	m.lastJoin = m.now
	if m.ring == nil && m.last != nil && slices.ContainsFunc(info.Slots, func(r SlotReport) bool {
		return r.State == InRing && r.Generation == m.last.Generation
	}) {
		m.ring, m.broken = m.last, false // a survivor is back that still has to leave it
	}

	h.slots = make([]slot, len(info.Slots))
	for l, r := range info.Slots {
		s := &h.slots[l]
		*s = slot{state: r.State, inc: r.Incarnation, assign: r.Assignment, gen: r.Generation,
			up: r.Up, notifiable: r.Notifiable, standIn: r.StandIn, failures: r.Failures, started: m.now, admitted: r.State != Down}
		s.since = r.Since
		// One that was to replace it in place may never have been started; its
		// name stands in rings that the host may yet be let into.
		if mem := info.Ring.Find(SlotID{info.ID, l}); mem != nil && s.state == Down {
			s.inc = max(s.inc, mem.Proc.Incarnation)
		}
		ago := time.Duration(r.FailedAgo * float64(time.Second))
		s.failed = m.now.Add(-ago)
		if n := Forgive(r.Failures, ago); n > m.opt.SlotRestarts {
			h.failed, h.why = true, fmt.Sprintf("slot %d failed %d times", l, n)
		}
	}
	m.review(h)
	if info.Completed {
		m.decide(End{Success: true, Reason: "training is complete"})
	}
}

// review holds what a host reported against the newest ring.
func (m *Machine) review(h *host) {
	for l := range h.slots {
		s := &h.slots[l]
		if m.last == nil {
			continue
		}
		p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}
		mem := m.last.Find(p.Slot)
		if s.state == Down {
			if mem != nil {
				s.inc = max(s.inc, mem.Proc.Incarnation)
			}
			continue
		}
		if mem != nil && s.inc > mem.Proc.Incarnation && s.state == InRing && s.gen == m.last.Generation {
			mem.Proc, mem.Since = p, s.since // it replaced one that died while the ring formed
		}
		switch {
		case mem == nil || mem.Proc != p:
			// The newest ring went on without it, or never had it.
			s.since = 0
			if s.state == InRing {
				m.stop(p, true, "its ring went on without it")
			}
		case s.gen < m.last.Generation: // it has not heard of its ring yet
			s.since = mem.Since
			if m.ring != nil {
				s.state, s.gen, s.up, m.resend = InRing, m.last.Generation, false, true
			}
		}
	}
}

// adopt takes over the ring of an earlier leader. Its hosts count as present
// until HostLost says otherwise.
func (m *Machine) adopt(r *Ring) {
	if !r.Newer(m.last) {
		return
	}
	ring := r.clone()
	m.ring, m.last = &ring, &ring
	m.formed, m.up, m.dissolving, m.notified = m.now, time.Time{}, time.Time{}, time.Time{}
	m.broken = false
	for id, h := range m.hosts {
		if !h.known { // of a ring that turned out not to be the newest
			delete(m.hosts, id)
		}
	}
	for _, mem := range ring.Members {
		id := mem.Proc.Slot
		h := m.hosts[id.Host]
		switch {
		case h == nil:
			h = &host{id: id.Host}
			m.hosts[id.Host] = h
			fallthrough
		case !h.known:
			for len(h.slots) <= id.Local {
				h.slots = append(h.slots, slot{})
			}
			h.slots[id.Local] = slot{state: InRing, inc: mem.Proc.Incarnation, gen: ring.Generation, since: mem.Since, up: true, admitted: true}
		}
	}
	for _, h := range m.hosts {
		if h.known {
			m.review(h)
		}
	}
	m.resend = true
}

// exited takes in the end of a process.
func (m *Machine) exited(ev SlotExited) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	was, asked := *s, s.stopping
	h := m.hosts[ev.Proc.Slot.Host]
	*s = slot{inc: s.inc, gen: s.gen, leaving: s.leaving, failures: s.failures, failed: s.failed, retry: m.now}
	if m.outcome != nil {
		return
	}
	switch {
	case asked:
		s.admitted = was.restage
		return
	case ev.Success && (was.state == InRing || m.last == nil):
		m.decide(End{Success: true, Reason: fmt.Sprintf("training is complete: %s exited 0", ev.Proc.Slot)})
		return
	case ev.Success:
		ev.Status = "exited 0 before it joined the ring"
	}
	collateral := ev.Aborted && was.state == InRing && m.broken
	if collateral {
		s.retry = m.now.Add(time.Second)
		return
	}
	s.fail(m.now)
	s.retry = m.now.Add(backoff(s.failures))
	if s.failures > m.opt.SlotRestarts {
		h.failed = true
		h.why = fmt.Sprintf("slot %d failed %d times, the last time with %s %s", ev.Proc.Slot.Local, s.failures, ev.Status, phase(was.state))
		m.tell(h.id, "%s; the host is given back", h.why)
		return
	}
	if mem := m.ring.Find(ev.Proc.Slot); mem != nil && mem.Proc == ev.Proc && was.state == InRing &&
		was.gen == m.ring.Generation && !was.up && !ev.Visible && m.dissolving.IsZero() && !m.broken && h.staying() {
		m.replace(mem, s, ev.Status)
		return
	}
	m.tell(h.id, "slot %d ended with %s %s; restart %d of %d in %s", ev.Proc.Slot.Local, ev.Status, phase(was.state),
		s.failures, m.opt.SlotRestarts, backoff(s.failures))
}

// replace restarts in place a process that died while its ring forms, before
// any other member learned its address: the others wait in the rendezvous and
// can't tell the difference.
func (m *Machine) replace(mem *Member, s *slot, status string) {
	s.inc++
	s.state, s.gen, s.started, s.admitted = InRing, m.ring.Generation, m.now, true
	mem.Proc.Incarnation = s.inc
	s.standIn = mem.Assignment.Rank == 0 && mem.Since != m.ring.Generation
	if mem.Since != m.ring.Generation { // else nobody holds more than it can have again
		mem.Since = 0
	}
	s.since = mem.Since
	m.formed = m.now // the newcomer has to import first
	m.tell(mem.Proc.Slot.Host, "slot %d ended with %s while ring %d formed; replaced in place", mem.Proc.Slot.Local, status, m.ring.Generation)
	m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment, Generation: m.ring.Generation, StandIn: s.standIn})
}

func backoff(failures int) time.Duration {
	return min(time.Second<<min(failures-1, 6), time.Minute)
}

func phase(s SlotState) string {
	switch s {
	case Starting:
		return "before it reached Horovod's rendezvous"
	case Arrived:
		return "while it waited to join"
	case Waiting:
		return "while it waited for the next ring"
	default:
		return "while training"
	}
}

// decide ends the job: from now on processes are only brought to an end.
func (m *Machine) decide(e End) {
	if m.outcome != nil {
		return
	}
	m.outcome, m.decidedAt = &e, m.now
	m.tell("", "%s", e.Reason)
}
