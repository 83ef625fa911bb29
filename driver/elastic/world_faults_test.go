// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// disturb injects one fault, or one request for a change.
func (w *world) disturb() {
	n := w.pick(33)
	if n < 5 && len(w.hosts) < 6 {
		w.addHost()
		return
	}
	if len(w.hosts) == 0 {
		return
	}
	switch {
	case n < 9: // leave
		if h := w.anyHost(); !h.leaving {
			h.leaving = true
			h.report(HostLeaving{Host: h.info.ID, Within: w.timeToLeave()})
		}
	case n < 10:
		w.loseHost()
	case n < 11:
		w.cutHost()
	case n < 15: // a process dies
		w.kill()
	case n < 16: // the leader dies; some time later another rebuilds
		w.elect()
	case n < 18: // a host comes back
		if h := w.anyHost(); h.cut {
			w.register(h)
		}
	case n < 19: // a host gets more slots, or fewer
		w.changeSlots()
	case n < 21: // a session breaks and is there again at once: messages are lost
		if h := w.anyHost(); !h.cut {
			w.register(h)
		}
	case n < 22: // an event comes again, late
		if h := w.anyHost(); len(h.up) > 0 {
			h.up = append(h.up, h.up[w.pick(len(h.up))])
		}
	case n < 23: // an agent starts again, under another name
		w.rename(w.anyHost())
	case n < 24: // a process hangs
		h := w.anyHost()
		if s := &h.slots[w.pick(len(h.slots))]; s.training && len(w.training(s.Generation)) > 0 {
			s.hung = true
		}
	case n < 25: // a process aborts
		h := w.anyHost()
		if l := w.pick(len(h.slots)); h.slots[l].State != Down {
			w.exit(h, l, SlotExited{Status: "aborted", Aborted: true})
		}
	case n < 26: // the leader dies, and a process with it
		w.kill()
		w.elect()
	case n < 27: // the ring is slow
		if w.newest != nil {
			w.stall()
		}
	case n < 28: // Nomad gives up a host that is cut off, and it comes back
		if h := w.anyHost(); h.cut && !h.leaving {
			h.info.Dropped = true
			w.register(h)
		}
	case n < 30: // a process writes a checkpoint
		h := w.anyHost()
		if s := &h.slots[w.pick(len(h.slots))]; s.training && !s.hung && !w.restarts {
			s.busy = true
		}
	case n < 31: // a host that leaves has waited long enough
		if h := w.anyHost(); h.leaving {
			alone := (h.cut || !w.allowed) && w.pick(2) == 0
			for l := range h.slots {
				switch s := &h.slots[l]; {
				case s.State == Waiting && !s.Retiring && alone:
					s.Retiring = true
					w.failed[s.Generation] = true // a leader may learn of its end alone
					h.report(SlotWaiting{Proc: Proc{SlotID{h.info.ID, l}, s.Incarnation}, Generation: s.Generation, Retiring: true})
				case s.State != Down && !alone:
					w.exit(h, l, SlotExited{Status: "stopped"})
				}
			}
		}
	default:
		w.now = w.now.Add(time.Duration(w.pick(3000)) * time.Millisecond)
		w.step(Tick{})
	}
}

func (w *world) anyHost() *whost { return w.hosts[w.pick(len(w.hosts))] }

func (w *world) addHost() {
	w.next++
	n := 1 + w.pick(3)
	h := &whost{info: HostInfo{ID: HostID(fmt.Sprintf("h%02d", w.next)), Group: "g", Index: w.next}, slots: make([]wslot, n), told: map[uint64]time.Time{}}
	if w.standbys {
		h.info.Width, h.slots = n, make([]wslot, 2*n)
	}
	h.info.Topology, h.info.Reassigns = w.rack(), w.reassigns && w.pick(8) > 0
	w.hosts = append(w.hosts, h)
	w.register(h)
}

// loseHost ends a host, with its machine or without.
func (w *world) loseHost() {
	h := w.anyHost()
	w.remove(h)
	if w.pick(2) == 0 {
		w.gone = append(w.gone, wgone{h.info.ID, w.now})
		return
	}
	w.quorum()
	w.step(HostLost{h.info.ID})
}

// cutHost separates a host from the leader.
func (w *world) cutHost() {
	h := w.anyHost()
	for _, s := range h.slots {
		if s.State == InRing {
			w.leaves(s.Generation)
			w.failed[s.Generation] = w.failed[s.Generation] || !w.leavesFor(h)
		}
	}
	h.cut, h.up, h.dn = true, nil, nil
	w.quorum()
	w.step(HostLost{h.info.ID})
}

func (w *world) changeSlots() {
	h := w.anyHost()
	if h.cut || w.restarts {
		return
	}
	h.info.Width, w.widths[h.info.ID] = 0, 0
	h.keep = 1 + w.pick(3)
	for len(h.slots) < h.keep {
		h.slots = append(h.slots, wslot{})
	}
	w.step(HostSlots{h.info.ID, h.keep})
}

// kill ends a process.
func (w *world) kill() {
	h := w.hosts[w.pick(len(w.hosts))]
	if l := w.pick(len(h.slots)); h.slots[l].State != Down {
		if !w.restarts || h.slots[l].State != InRing {
			h.fail(l)
		}
		w.exit(h, l, SlotExited{Status: "killed"})
	}
}

// elect puts another leader in place of the current one.
func (w *world) elect() {
	w.term++
	w.m = New(w.opt, w.term)
	w.ended, w.gone = nil, nil
	w.reunite()
}

// rename ends a host and brings it back with another name, perhaps before the leader
// notices that the old one is gone.
func (w *world) rename(old *whost) {
	if old.leaving || old.cut || old.info.Dropped {
		return
	}
	w.remove(old)
	w.next++
	h := &whost{info: HostInfo{ID: HostID(fmt.Sprintf("h%02d", w.next)), Group: "g", Index: old.info.Index, Width: old.info.Width, Topology: w.rack()}, slots: make([]wslot, len(old.slots)), told: map[uint64]time.Time{}}
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

// quorum reports to the leader whether it may form rings. It may while it is connected
// to all hosts of the last ring that are not gone, or to most of them.
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
