// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// world stands in for agents and Horovod processes. Messages between a host
// and the leader keep their order and are otherwise arbitrarily late; any
// process, host or leader may die at any moment.
type world struct {
	pick  func(n int) int // the source of all chance
	opt   Options
	now   time.Time
	m     *Machine
	term  uint64
	hosts []*whost
	next  int

	meshes []*wmesh
	newest *Ring
	best   int // last committed step
	gone   []wgone

	allowed  bool // last Quorum
	electing bool
	ended    *End
	trace    []string
	steps    int
}

type whost struct {
	info    HostInfo
	slots   []wslot
	cut     bool // the leader thinks it is lost
	up, dn  []any
	leaving bool
	keep    int // slots that are still wanted, 0: all
}

type wslot struct {
	SlotReport
	step     int
	training bool
	stopped  bool
	enter    bool // let in, but has yet to start: replaces one that died while forming
	fails    int
	hung     bool // does nothing any more until it is killed
	given    bool // up, by a leader
}

// wgone is a dead host that the leader has not missed yet.
type wgone struct {
	id   HostID
	died time.Time
}

type wmesh struct {
	ring Ring
	in   map[SlotID]int // incarnation that entered
	done bool
	dead bool // can't complete any more

	holders   []Proc    // those in reach that held the newest state as it was formed
	connected time.Time // done since
	handed    bool      // and rank 0 has broadcast its state
}

func (w *world) meshOf(r *Ring) *wmesh {
	for _, mesh := range w.meshes {
		if mesh.ring.Generation == r.Generation && mesh.ring.Term == r.Term {
			return mesh
		}
	}
	return nil
}

func ringKey(r *Ring) string { return fmt.Sprintf("%d/%d", r.Generation, r.Term) }

func newWorld(pick func(int) int) *world {
	w := &world{pick: pick, now: time.Unix(1e9, 0)}
	w.opt = Options{MinNP: 1 + pick(3), SlotRestarts: 2 + pick(3), OnRingLost: OnRingLost(pick(2))}
	w.opt.NP = w.opt.MinNP + pick(2)
	if pick(2) == 0 {
		w.opt.MaxNP = w.opt.NP + pick(4)
	}
	w.m, w.term, w.allowed = New(w.opt, 1), 1, true
	return w
}

func (w *world) fail(format string, args ...any) {
	panic(fmt.Sprintf(format, args...) + "\n" + fmt.Sprint(w.trace[max(0, len(w.trace)-80):]))
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, "\n"+fmt.Sprintf(format, args...))
	if len(w.trace) > 2000 {
		w.trace = slices.Clone(w.trace[1000:])
	}
}

func (w *world) host(id HostID) *whost {
	for _, h := range w.hosts {
		if h.info.ID == id {
			return h
		}
	}
	return nil
}

// step feeds the machine and checks all that it asks for.
func (w *world) step(ev Event) {
	w.steps++
	actions := w.m.Step(w.now, ev)
	if _, trained := ev.(Trained); !trained && (!isTick(ev) || len(actions) > 0) {
		w.logf("%v %T%+v", w.now.Unix(), ev, ev)
	}
	for _, a := range actions {
		w.logf("    -> %T%+v", a, a)
		switch a := a.(type) {
		case Start:
			w.send(a.Proc.Slot.Host, a)
		case Stop:
			if h := w.host(a.Proc.Slot.Host); h != nil && h.slots[a.Proc.Slot.Local].Incarnation == a.Proc.Incarnation {
				h.slots[a.Proc.Slot.Local].given = true
			}
			w.send(a.Proc.Slot.Host, a)
		case Notify:
			w.send(a.Proc.Slot.Host, a)
		case Dismiss:
			w.send(a.Host, a)
		case Form:
			w.checkRing(&a.Ring)
			for _, h := range w.hosts {
				if a.Hosts == nil || slices.Contains(a.Hosts, h.info.ID) {
					h.send(a)
				}
			}
		case Break, Synced:
			for _, h := range w.hosts {
				h.send(a)
			}
		case End:
			w.ended = &a
		}
	}
}

func isTick(ev Event) bool { _, ok := ev.(Tick); return ok }

func (w *world) send(id HostID, a any) {
	if h := w.host(id); h != nil {
		h.send(a)
	}
}

func (h *whost) send(a any) {
	if !h.cut {
		h.dn = append(h.dn, a)
	}
}

func (h *whost) report(ev Event) {
	if !h.cut {
		h.up = append(h.up, ev)
	}
}

// checkRing holds a ring against what Horovod needs.
func (w *world) checkRing(r *Ring) {
	most := w.opt.MaxNP
	if slices.ContainsFunc(w.hosts, func(h *whost) bool { return h.leaving }) || slices.ContainsFunc(r.Members, func(m Member) bool { h := w.m.hosts[m.Proc.Slot.Host]; return h == nil || !h.staying() }) {
		most = max(most, 2) // a move
	}
	if w.opt.MaxNP > 0 && len(r.Members) > most || len(r.Members) < w.opt.MinNP {
		w.fail("ring of %d, allowed %d to %d", len(r.Members), w.opt.MinNP, w.opt.MaxNP)
	}
	if r.Generation == 1 && r.Term == w.term && w.newest == nil && len(r.Members) < w.opt.NP {
		w.fail("first ring of %d, np is %d", len(r.Members), w.opt.NP)
	}
	for _, m := range r.Members {
		if h := w.m.hosts[m.Proc.Slot.Host]; w.meshOf(r) == nil && h != nil && h.staying() && !h.slots[m.Proc.Slot.Local].leaving && m.Assignment.LocalRank != m.Proc.Slot.Local {
			w.fail("local rank %d on slot %s", m.Assignment.LocalRank, m.Proc.Slot)
		}
	}
	known := slices.ContainsFunc(w.hosts, func(h *whost) bool { return h.info.Ring != nil })
	if w.meshOf(r) == nil {
		if r.Generation == 1 && !known {
			w.newest, w.best = nil, 0 // all who knew of the old rings are gone
		}
		for _, h := range w.hosts {
			if !h.cut && h.info.Ring.Newer(r) {
				w.fail("ring %s after %s, which %s knows of", ringKey(r), ringKey(h.info.Ring), h.info.ID)
			}
		}
	}
	if err := CheckRing(r); err != nil {
		w.fail("%v", err)
	}
	if w.meshOf(r) == nil {
		w.newest = r
		w.meshes = append(w.meshes, &wmesh{ring: *r, in: map[SlotID]int{}, holders: w.holders(r)})
	}
}

// CheckRing says what is wrong with the ranks of a ring.
func CheckRing(r *Ring) error {
	locals, seen := map[HostID][]int{}, map[HostID]int{}
	cross := map[int][]int{}
	position := map[int]int{} // where a local rank stands on its host by rank
	for i, m := range r.Members {
		h, a := m.Proc.Slot.Host, m.Assignment
		if a.Rank != i || a.Size != len(r.Members) {
			return fmt.Errorf("member %d has rank %d of %d", i, a.Rank, a.Size)
		}
		if at, ok := seen[h]; ok && at != i-1 {
			return fmt.Errorf("ranks of %s are not contiguous", h)
		}
		seen[h] = i
		if at, ok := position[a.LocalRank]; ok && at != len(locals[h]) {
			return fmt.Errorf("local rank %d is %d. by rank on %s and %d. on another host", a.LocalRank, len(locals[h]), h, at)
		}
		position[a.LocalRank] = len(locals[h])
		locals[h] = append(locals[h], a.LocalRank)
		cross[a.LocalRank] = append(cross[a.LocalRank], a.CrossRank)
	}
	for _, m := range r.Members {
		a := m.Assignment
		l := slices.Sorted(slices.Values(locals[m.Proc.Slot.Host]))
		if len(l) != a.LocalSize || l[len(l)-1] != len(l)-1 {
			return fmt.Errorf("%s has local ranks %v, local size %d", m.Proc.Slot.Host, l, a.LocalSize)
		}
		c := cross[a.LocalRank]
		if len(c) != a.CrossSize || !slices.IsSorted(c) || c[len(c)-1] != len(c)-1 {
			return fmt.Errorf("local rank %d has cross ranks %v, cross size %d", a.LocalRank, c, a.CrossSize)
		}
	}
	return nil
}

// receive is the agent: it takes one message from the leader.
func (w *world) receive(h *whost, a any) {
	slotOf := func(p Proc) *wslot {
		s := &h.slots[p.Slot.Local]
		if s.Incarnation != p.Incarnation || s.State == Down {
			return nil
		}
		return s
	}
	switch a := a.(type) {
	case Start:
		s := &h.slots[a.Proc.Slot.Local]
		if s.State != Down || a.Proc.Incarnation <= s.Incarnation {
			w.fail("start of %v over %v#%d", a.Proc, s.State, s.Incarnation)
		}
		*s = wslot{SlotReport: SlotReport{State: Starting, Incarnation: a.Proc.Incarnation, Assignment: a.Assignment, Failures: s.Failures, StandIn: a.StandIn}, fails: s.fails}
		if a.Generation == 0 {
			return
		}
		// It takes the place of one that died while its ring formed.
		m := h.info.Ring.Find(a.Proc.Slot)
		if m == nil || h.info.Ring.Generation != a.Generation {
			w.exit(h, a.Proc.Slot.Local, SlotExited{Status: "it has no place in the ring"})
			return
		}
		ring := *h.info.Ring
		ring.Members = slices.Clone(ring.Members)
		m = ring.Find(a.Proc.Slot)
		m.Proc = a.Proc
		if m.Since != ring.Generation {
			m.Since = 0
		}
		h.info.Ring = &ring
		s.State, s.Generation, s.Since, s.enter = InRing, ring.Generation, m.Since, true
	case Stop:
		if s := slotOf(a.Proc); s != nil {
			s.stopped = true
		}
	case Notify:
		if s := slotOf(a.Proc); s != nil && s.training && s.Generation == a.Generation && w.pick(4) > 0 {
			w.interrupt(a.Generation)
		}
	case Break:
		for l := range h.slots {
			if s := &h.slots[l]; s.State == InRing && s.training && !s.hung && s.Generation == a.Generation {
				w.leaveRing(h, l)
			}
		}
	case Synced:
		for l := range h.slots {
			if s := &h.slots[l]; s.Generation == a.Generation && s.Since == 0 {
				s.Since = a.Generation
			}
		}
	case Form:
		if a.Ring.Newer(h.info.Ring) {
			ring := a.Ring
			h.info.Ring = &ring
		}
		for l := range h.slots {
			w.enter(h, l)
		}
	case Dismiss:
		for l := range h.slots {
			if h.slots[l].State != Down {
				w.fail("%s dismissed while slot %d is %v", h.info.ID, l, h.slots[l].State)
			}
		}
		w.remove(h)
		w.step(HostLost{h.info.ID})
	}
}

// enter lets a held process into the newest ring it belongs to.
func (w *world) enter(h *whost, l int) {
	s := &h.slots[l]
	m := h.info.Ring.Find(SlotID{h.info.ID, l})
	if m == nil || m.Proc.Incarnation != s.Incarnation || s.State != Arrived && s.State != Waiting || s.Generation >= h.info.Ring.Generation {
		return
	}
	if s.State == Arrived && s.Assignment != m.Assignment {
		w.fail("%s:%d was started for %+v and is let in as %+v", h.info.ID, l, s.Assignment, m.Assignment)
	}
	s.State, s.Generation, s.Up, s.Since = InRing, h.info.Ring.Generation, false, m.Since
	if mesh := w.meshOf(h.info.Ring); mesh != nil {
		mesh.in[SlotID{h.info.ID, l}] = s.Incarnation
	}
}

func (w *world) leaveRing(h *whost, l int) {
	s := &h.slots[l]
	s.State, s.training, s.Up = Waiting, false, false
	h.report(SlotWaiting{Proc{SlotID{h.info.ID, l}, s.Incarnation}, s.Generation})
}

// interrupt is a commit at which all members see the notice.
func (w *world) interrupt(gen uint64) {
	for _, p := range w.training(gen) {
		w.leaveRing(w.host(p.Host), p.Local)
	}
}

// intact says whether all members of the mesh are connected.
func (w *world) intact(mesh *wmesh) bool {
	return mesh.done && !slices.ContainsFunc(mesh.ring.Members, func(m Member) bool {
		h := w.host(m.Proc.Slot.Host)
		if h == nil {
			return true
		}
		s := h.slots[m.Proc.Slot.Local]
		return s.Incarnation != mesh.in[m.Proc.Slot] || !s.training || s.hung || s.Generation != mesh.ring.Generation
	})
}

// training returns the members of the generation where all of them train, which
// they do once they have got the state.
func (w *world) training(gen uint64) (members []SlotID) {
	for _, mesh := range w.meshes {
		if mesh.ring.Generation == gen && mesh.handed && w.intact(mesh) {
			for _, m := range mesh.ring.Members {
				members = append(members, m.Proc.Slot)
			}
			break
		}
	}
	return members
}

// broken says whether the generation has lost a member.
func (w *world) broken(gen uint64) bool {
	return !slices.ContainsFunc(w.meshes, func(mesh *wmesh) bool { return mesh.ring.Generation == gen && w.intact(mesh) })
}

// hangs says whether a member of the generation hangs; the others wait for it
// in a collective.
func (w *world) hangs(gen uint64) bool {
	return slices.ContainsFunc(w.hosts, func(h *whost) bool {
		return slices.ContainsFunc(h.slots, func(s wslot) bool { return s.hung && s.State == InRing && s.Generation == gen })
	})
}

// exit ends a process.
func (w *world) exit(h *whost, l int, ev SlotExited) {
	s := &h.slots[l]
	id := SlotID{h.info.ID, l}
	ev.Proc = Proc{id, s.Incarnation}
	for _, mesh := range w.meshes {
		if mesh.in[id] != s.Incarnation || mesh.done || s.State != InRing {
			continue
		}
		if ev.Visible = len(mesh.in) == len(mesh.ring.Members) && w.pick(2) == 0; ev.Visible {
			mesh.dead = true
		}
		delete(mesh.in, id)
	}
	*s = wslot{SlotReport: SlotReport{State: Down, Incarnation: s.Incarnation, Failures: s.Failures}, fails: s.fails}
	h.report(ev)
}

func (w *world) remove(h *whost) {
	for l := range h.slots {
		if h.slots[l].State != Down {
			w.exit(h, l, SlotExited{})
		}
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(o *whost) bool { return o == h })
}

// progress moves the processes on by one random step; it is what goes on also
// when no fault happens.
func (w *world) progress() {
	if len(w.hosts) > 0 {
		h := w.hosts[w.pick(len(w.hosts))]
		if len(h.slots) > 0 {
			w.run(h, w.pick(len(h.slots)))
		}
		for n := w.pick(3); n > 0 && len(h.dn) > 0; n-- {
			a := h.dn[0]
			h.dn = h.dn[1:]
			w.receive(h, a)
		}
		for n := w.pick(3); n > 0 && len(h.up) > 0; n-- {
			ev := h.up[0]
			h.up = h.up[1:]
			w.step(ev.(Event))
		}
	}
	for _, mesh := range w.meshes {
		w.mesh(mesh)
	}
	if len(w.gone) > 0 && (w.pick(20) == 0 || w.now.Sub(w.gone[0].died) > 8*time.Second) {
		id := w.gone[0].id
		w.gone = w.gone[1:]
		w.quorum()
		w.step(HostLost{id})
	}
	if w.newest != nil && w.hangs(w.newest.Generation) && w.pick(40) == 0 {
		w.step(Stalled{w.newest.Generation})
	}
	if w.newest != nil && w.pick(3) == 0 {
		if members := w.training(w.newest.Generation); len(members) > 0 {
			w.best++
			for _, p := range members {
				w.host(p.Host).slots[p.Local].step = w.best
			}
			if w.pick(2) == 0 {
				w.step(Trained{w.newest.Generation})
			}
		}
	}
	if d := w.m.Deadline(); w.pick(4) == 0 && !d.IsZero() {
		if d.After(w.now) {
			w.now = w.now.Add(min(d.Sub(w.now), time.Duration(1+w.pick(2000))*time.Millisecond))
		}
		w.step(Tick{})
	}
}

// run moves one process on.
func (w *world) run(h *whost, l int) {
	s := &h.slots[l]
	p := Proc{SlotID{h.info.ID, l}, s.Incarnation}
	switch {
	case s.State == Down:
	case s.stopped:
		w.exit(h, l, SlotExited{Aborted: w.pick(2) == 0, Status: "stopped"})
	case s.State == Starting:
		s.State = Arrived
		h.report(SlotArrived{p})
		w.enter(h, l)
	case s.enter:
		s.enter = false
		if mesh := w.meshOf(h.info.Ring); mesh != nil && mesh.ring.Generation == s.Generation {
			mesh.in[p.Slot] = s.Incarnation
		}
	case s.State == InRing && s.training && !s.hung:
		if !s.Notifiable {
			s.Notifiable = true
			h.report(SlotNotifiable{p})
		}
		if w.broken(s.Generation) && !w.hangs(s.Generation) && w.pick(3) == 0 {
			w.leaveRing(h, l) // noticed the failure by itself
		}
	}
}

// mesh lets a rendezvous complete, and then rank 0 hand out its state.
func (w *world) mesh(mesh *wmesh) {
	switch {
	case mesh.done && !mesh.handed:
		w.handOut(mesh)
		return
	case mesh.done || mesh.dead || len(mesh.in) < len(mesh.ring.Members):
		return
	}
	for id, inc := range mesh.in {
		if h := w.host(id.Host); h == nil || h.slots[id.Local].Incarnation != inc || h.slots[id.Local].State != InRing {
			return
		}
	}
	mesh.done, mesh.connected = true, w.now
	for _, m := range mesh.ring.Members {
		h := w.host(m.Proc.Slot.Host)
		s := &h.slots[m.Proc.Slot.Local]
		if s.StandIn {
			continue
		}
		s.training, s.Up = true, true
		h.report(SlotUp{Proc{m.Proc.Slot, s.Incarnation}, mesh.ring.Generation})
	}
}

// holders returns the processes that hold the newest state. A host that was cut
// off is not waited for, and one that came back is not trusted.
func (w *world) holders(r *Ring) (holders []Proc) {
	for _, h := range w.hosts {
		for l, s := range h.slots {
			if id := (SlotID{h.info.ID, l}); s.State != Down && s.step == w.best && !h.cut && !s.given && s.Generation+1 >= r.Generation && w.m.slot(id) != nil {
				holders = append(holders, Proc{id, s.Incarnation})
			}
		}
	}
	return holders
}

// handOut is rank 0's broadcast of its state, which takes a while, but not as
// long as SyncGrace. A stand-in never gets there.
func (w *world) handOut(mesh *wmesh) {
	if !w.intact(mesh) || w.pick(30) > 0 && w.now.Sub(mesh.connected) < 15*time.Second {
		return
	}
	mesh.handed = true
	root := mesh.ring.Members[0].Proc.Slot
	step := w.host(root.Host).slots[root.Local].step
	if step < w.best {
		for _, p := range mesh.holders {
			if h := w.host(p.Slot.Host); h != nil {
				if s := h.slots[p.Slot.Local]; s.Incarnation == p.Incarnation && s.State != Down && s.step == w.best && !s.given {
					w.fail("ring %s goes back from step %d to %d while %s lives", ringKey(&mesh.ring), w.best, step, p)
				}
			}
		}
		if w.opt.OnRingLost == Fail {
			w.fail("ring %s goes back from step %d to %d", ringKey(&mesh.ring), w.best, step)
		}
		w.best = step
	}
	for _, m := range mesh.ring.Members {
		w.host(m.Proc.Slot.Host).slots[m.Proc.Slot.Local].step = step
	}
}

// register sends a host's whole knowledge to the leader.
func (w *world) register(h *whost) {
	h.cut, h.up, h.dn = false, nil, nil
	h.info.Slots = nil
	for l := range h.slots {
		h.info.Slots = append(h.info.Slots, h.slots[l].SlotReport)
		h.info.Slots[l].Failures = h.slots[l].fails
	}
	h.info.Leaving = h.leaving
	w.step(HostJoined{h.info})
	if h.keep > 0 {
		w.step(HostSlots{h.info.ID, h.keep})
	}
	if !w.electing {
		w.quorum()
	}
}

// quorum tells the leader whether it may form rings: when it is connected to
// all hosts of the last ring that are not gone, or to most of them.
func (w *world) quorum() {
	cut, there := 0, 0
	for _, id := range w.m.Last().Hosts() {
		if h := w.host(id); h != nil && h.cut {
			cut++
		} else if h != nil {
			there++
		}
	}
	n := len(w.m.Last().Hosts())
	if ok := cut == 0 || there > n/2; ok != w.allowed {
		w.allowed = ok
		w.step(Quorum{OK: ok, Reason: "hosts are cut off"})
	}
}

// disturb lets one thing go wrong, or somebody ask for a change.
func (w *world) disturb() {
	switch n := w.pick(31); {
	case n < 5 && len(w.hosts) < 6:
		w.next++
		h := &whost{info: HostInfo{ID: HostID(fmt.Sprintf("h%02d", w.next)), Group: "g", Index: w.next}, slots: make([]wslot, 1+w.pick(3))}
		w.hosts = append(w.hosts, h)
		w.register(h)
	case len(w.hosts) == 0:
	case n < 9: // leave
		if h := w.hosts[w.pick(len(w.hosts))]; !h.leaving {
			h.leaving = true
			h.report(HostLeaving{Host: h.info.ID})
		}
	case n < 10: // a host dies
		h := w.hosts[w.pick(len(w.hosts))]
		w.remove(h)
		if w.pick(2) == 0 { // with its machine
			w.gone = append(w.gone, wgone{h.info.ID, w.now})
			break
		}
		w.quorum()
		w.step(HostLost{h.info.ID})
	case n < 11: // a host is cut off
		h := w.hosts[w.pick(len(w.hosts))]
		h.cut, h.up, h.dn = true, nil, nil
		w.quorum()
		w.step(HostLost{h.info.ID})
	case n < 15: // a process dies
		w.kill()
	case n < 16: // the leader dies; some time later another rebuilds
		w.elect()
	case n < 18: // a host comes back
		if h := w.hosts[w.pick(len(w.hosts))]; h.cut {
			w.register(h)
		}
	case n < 19: // a host gets more slots, or fewer
		if h := w.hosts[w.pick(len(w.hosts))]; !h.cut {
			h.keep = 1 + w.pick(3)
			for len(h.slots) < h.keep {
				h.slots = append(h.slots, wslot{})
			}
			w.step(HostSlots{h.info.ID, h.keep})
		}
	case n < 21: // a session breaks and is there again at once: messages are lost
		if h := w.hosts[w.pick(len(w.hosts))]; !h.cut {
			w.register(h)
		}
	case n < 22: // an event comes again, late
		if h := w.hosts[w.pick(len(w.hosts))]; len(h.up) > 0 {
			h.up = append(h.up, h.up[w.pick(len(h.up))])
		}
	case n < 23: // an agent starts again, under another name
		w.rename(w.hosts[w.pick(len(w.hosts))])
	case n < 24: // a process hangs
		h := w.hosts[w.pick(len(w.hosts))]
		if s := &h.slots[w.pick(len(h.slots))]; s.training && len(w.training(s.Generation)) > 0 {
			s.hung = true
		}
	case n < 25: // a process aborts
		h := w.hosts[w.pick(len(w.hosts))]
		if l := w.pick(len(h.slots)); h.slots[l].State != Down {
			w.exit(h, l, SlotExited{Status: "aborted", Aborted: true})
		}
	case n < 26: // the leader dies, and a process with it
		w.kill()
		w.elect()
	case n < 27: // the ring is slow
		if w.newest != nil {
			w.step(Stalled{w.newest.Generation})
		}
	case n < 28: // Nomad gives up a host that is cut off, and it comes back
		if h := w.hosts[w.pick(len(w.hosts))]; h.cut && !h.leaving {
			h.info.Dropped = true
			w.register(h)
		}
	default:
		w.now = w.now.Add(time.Duration(w.pick(3000)) * time.Millisecond)
		w.step(Tick{})
	}
}

// kill ends a process.
func (w *world) kill() {
	h := w.hosts[w.pick(len(w.hosts))]
	if l := w.pick(len(h.slots)); h.slots[l].State != Down {
		h.slots[l].fails++
		w.exit(h, l, SlotExited{Status: "killed"})
	}
}

// elect puts another leader in place of the present one.
func (w *world) elect() {
	w.term++
	w.m = New(w.opt, w.term)
	w.ended, w.gone = nil, nil
	w.reunite()
}

// rename ends a host and lets it come back under another name, perhaps before
// the leader has missed the old one.
func (w *world) rename(old *whost) {
	if old.leaving || old.cut || old.info.Dropped {
		return
	}
	w.remove(old)
	w.next++
	h := &whost{info: HostInfo{ID: HostID(fmt.Sprintf("h%02d", w.next)), Group: "g", Index: old.info.Index}, slots: make([]wslot, len(old.slots))}
	w.hosts = append(w.hosts, h)
	early := w.pick(2) == 0
	if early {
		w.register(h)
	}
	w.step(HostLost{old.info.ID})
	if !early {
		w.register(h)
	}
}

// reunite connects every host to the leader again.
func (w *world) reunite() {
	// A leader forms no ring before the hosts of the last one are there.
	w.step(Quorum{Reason: "waiting for hosts"})
	w.electing, w.allowed = true, false
	for _, h := range slices.Clone(w.hosts) {
		w.register(h)
	}
	if last := w.m.Last(); last != nil {
		for _, id := range last.Hosts() {
			if w.host(id) == nil {
				w.step(HostLost{id})
			}
		}
	}
	w.electing = false
	w.quorum()
}

func (w *world) staying() (n int) {
	for _, h := range w.hosts {
		switch {
		case h.leaving || h.info.Dropped:
		case w.m.hosts[h.info.ID] != nil && w.m.hosts[h.info.ID].failed: // keeps the state until others come
		case h.keep > 0:
			n += h.keep
		default:
			n += len(h.slots)
		}
	}
	return n
}

// settle lets the world run without faults and checks that it comes to rest
// with everybody in the ring who can be.
func (w *world) settle() {
	for _, h := range slices.Clone(w.hosts) {
		if h.cut {
			w.register(h)
		}
	}
	for round := range 60 {
		if round == 30 {
			// Those who leave stay only where too few would remain, and are
			// then killed by Nomad.
			for _, h := range slices.Clone(w.hosts) {
				if (h.leaving || h.info.Dropped) && w.staying() < w.opt.MinNP {
					w.remove(h)
					w.step(HostLost{h.info.ID})
				}
			}
		}
		for range 200 {
			if w.ended != nil {
				return
			}
			w.progress()
		}
		// Nobody asks between the deadlines that the machine names.
		if d := w.m.Deadline(); !d.IsZero() {
			w.now = later(w.now, d)
			w.step(Tick{})
		}
	}
	for _, h := range w.hosts {
		if h.leaving || h.info.Dropped {
			w.fail("%s has to leave and was not let go", h.info.ID)
		}
	}
	want := w.staying()
	if w.opt.MaxNP > 0 {
		want = min(want, w.opt.MaxNP)
	}
	ring := w.m.Ring()
	if want < w.opt.MinNP || w.newest == nil && want < w.opt.NP {
		return // waits for more, with nothing else to do
	}
	if ring == nil || len(ring.Members) != want || !w.m.Up() {
		w.fail("at rest with ring %+v, %d slots could train", ring, want)
	}
	if len(w.training(ring.Generation)) == 0 {
		w.fail("at rest, and the ring does not train")
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func explore(pick func(int) int, steps int) *world {
	w := newWorld(pick)
	for range steps {
		if w.ended != nil {
			break
		}
		if pick(8) == 0 {
			w.disturb()
		} else {
			w.progress()
		}
	}
	if w.ended == nil {
		w.settle()
	}
	return w
}

// TestMachineInvariants explores random orders of events: ranks are dense and
// contiguous by host, rings stay within bounds and follow one another, a ring
// never goes back behind a state that a live process holds, and once events
// stop everybody who can train does.
func TestMachineInvariants(t *testing.T) {
	t.Parallel()
	seeds := uint64(2500)
	if testing.Short() {
		seeds = 300
	}
	steps, rings := 0, uint64(0)
	for seed := range seeds {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r, debug.Stack())
				}
			}()
			rng := rand.New(rand.NewPCG(seed, 1))
			w := explore(rng.IntN, 600)
			steps += w.steps
			if w.newest != nil {
				rings += w.newest.Generation
			}
		}()
	}
	t.Logf("%d events, %d rings", steps, rings)
	if rings < seeds {
		t.Fatalf("only %d rings formed: the test does not test", rings)
	}
}

// FuzzMachine lets the fuzzer choose the order of events.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("kolo"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		rng := rand.New(rand.NewPCG(1, 2))
		i := 0
		explore(func(n int) int {
			if i < len(data) {
				i++
				return int(data[i-1]) % n
			}
			return rng.IntN(n)
		}, min(len(data), 2000))
	})
}
