// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// phase is the phase of the newest ring, with the state that only this phase has. A
// transition replaces it as a whole, so that no state of one ring remains in a later one.
// All transitions are in this file; the package comment shows them.
type phase interface{ isPhase() }

// noRing means that no ring has formed yet, or that no member is left in the newest one.
type noRing struct {
	tooFew time.Time // since when there are too few slots; zero: there are enough
}

// forming means that a ring formed or was adopted, and its members connect.
type forming struct{ intact }

// training means that all members finished the rendezvous.
type training struct {
	intact
	since time.Time
}

// intact is the state that forming and training share: no member has left the ring.
type intact struct {
	formed   time.Time // when the ring formed, or a member was last replaced
	notified time.Time // last notice; zero if none explains why a member leaves
	told     bool      // members were notified of a change at some time
	failed   bool      // a member was lost unexpectedly
}

// dissolving means that a member left the ring or was lost. The others follow, or are
// killed.
type dissolving struct {
	since   time.Time
	noticed bool      // the members leave because of a notice
	broken  bool      // the ring lost a member, and its connections are cut
	stalled *Stalled  // the ring made no steps; nil if it did
	kept    time.Time // since when a member that has the state has left; zero if none has
	told    bool      // members were notified of a change, and none failed: those still in the ring may be busy until their commit
	failed  bool      // a member was lost unexpectedly
}

func (*noRing) isPhase()     {}
func (*forming) isPhase()    {}
func (*training) isPhase()   {}
func (*dissolving) isPhase() {}

// startForming makes r, which formed or was adopted, the newest ring.
func (m *Machine) startForming(r *Ring) {
	m.last = r
	m.phase = &forming{intact{formed: m.now}}
}

// startTraining starts the phase after forming: all members finished the rendezvous.
func (m *Machine) startTraining(f *forming) {
	m.phase = &training{intact: f.intact, since: m.now}
}

// resumeForming goes back to forming. All members of an adopted ring counted as connected,
// but one of its hosts has registered with a member that is not.
func (m *Machine) resumeForming(t *training) {
	m.phase = &forming{t.intact}
}

// startDissolving starts the phase in which members leave, after the first one left the
// ring or was lost.
func (m *Machine) startDissolving() *dissolving {
	if t, ok := m.phase.(*training); ok && m.now.Sub(t.since) >= m.syncGrace() {
		m.markSynced()
	}
	in := m.intact()
	d := &dissolving{since: m.now, noticed: m.noticed(), told: in.told && !in.failed, failed: in.failed}
	m.phase = d
	return d
}

// stalled dissolves a ring that makes no steps, after the leader has cut its
// connections. Members that do not hang notice and leave; the others are killed.
func (m *Machine) stalled(ev Stalled) {
	if m.Up() && m.last.Generation == ev.Generation {
		m.phase = &dissolving{since: m.now, noticed: m.noticed(), broken: true, stalled: &ev}
	}
}

// survivorReturned dissolves the newest ring again, because a lost host is back with a
// process that still has to leave it. The process's time to do so starts now.
func (m *Machine) survivorReturned() {
	m.phase = &dissolving{since: m.now, failed: true}
}

// dissolved ends the ring, because no member is left in it.
func (m *Machine) dissolved() {
	m.phase = &noRing{}
}

// intact returns the state that forming and training share, or nil in other phases.
func (m *Machine) intact() *intact {
	switch p := m.phase.(type) {
	case *forming:
		return &p.intact
	case *training:
		return &p.intact
	default:
		return nil
	}
}

// broken reports whether the current ring lost a member.
func (m *Machine) broken() bool {
	d, ok := m.phase.(*dissolving)
	return ok && d.broken
}

// noticed reports whether the current ring was notified, so that members may leave because
// of that.
func (m *Machine) noticed() bool {
	if in := m.intact(); in != nil {
		return !in.notified.IsZero()
	}
	d, ok := m.phase.(*dissolving)
	return ok && d.noticed
}

// rememberNotice records that a host of the ring had a notice from an earlier leader.
func (m *Machine) rememberNotice() {
	if in := m.intact(); in != nil {
		in.notified, in.told = m.now, true
	} else if d, ok := m.phase.(*dissolving); ok {
		d.noticed = true
	}
}

// rememberTold records that the current ring was notified, perhaps by an earlier leader, as
// a host reports.
func (m *Machine) rememberTold() {
	switch p := m.phase.(type) {
	case *forming:
		p.told = true
	case *training:
		p.told = true
	case *dissolving:
		p.told = p.stalled == nil && !p.failed
	}
}

// memberLost records that a member was lost unexpectedly, or that an intruder may have
// replaced it. From then on Gloo may hang in the other members, so a notice no longer gives
// them time until their commit.
func (m *Machine) memberLost() {
	if in := m.intact(); in != nil {
		in.failed = true
	} else if d, ok := m.phase.(*dissolving); ok {
		d.failed, d.told = true, false
	}
}

// forgetNotice discards the notice after a host of the ring was lost, because members that
// leave from now on may do so because they lost their connections to it. It does not apply
// to members that can't change their ring: they were asked to end, and should still do so.
func (m *Machine) forgetNotice() {
	if m.restarts {
		return
	}
	if in := m.intact(); in != nil {
		in.notified = time.Time{}
	} else if d, ok := m.phase.(*dissolving); ok {
		d.noticed = false
	}
}
