// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// staying returns the number of slots that may train.
func (w *world) staying() (n int) {
	for _, h := range w.hosts {
		switch {
		case h.leaving || h.info.Dropped:
		case w.m.hosts[h.info.ID] != nil && w.m.hosts[h.info.ID].outside:
		case w.m.hosts[h.info.ID] != nil && w.m.hosts[h.info.ID].failed: // keeps the state until others come
		case h.keep > 0:
			n += h.keep
		case w.standbys && h.info.Width > 0:
			n += h.info.Width
		default:
			n += len(h.slots)
		}
	}
	return n
}

// settle runs the world without faults, and checks that it comes to rest with every
// usable slot in the ring.
func (w *world) settle() {
	for _, h := range slices.Clone(w.hosts) {
		if h.cut {
			w.register(h)
		}
	}
	for round := range 60 {
		if round == 30 {
			// Leaving hosts stay only where too few would remain; Nomad then kills
			// them.
			for _, h := range slices.Clone(w.hosts) {
				if (h.leaving || h.info.Dropped) && (w.staying() < w.opt.MinNP || w.sharedWithLeaving()) {
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
		// No tick comes between the deadlines that the machine sets.
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
	want -= want % max(1, w.replica)
	if want < w.opt.MinNP || w.newest == nil && want < w.opt.NP {
		for _, h := range w.m.hosts {
			if h.outside && h.staying() {
				w.fail("%s waits outside, and %d slots are too few for a ring", h.id, want)
			}
		}
		return // waits for more, with nothing else to do
	}
	if ring == nil || len(ring.Members) != want || !w.m.Up() {
		w.fail("at rest with ring %+v, %d slots could train", ring, want)
	}
	if len(w.training(ring.Generation)) == 0 {
		w.fail("at rest, and the ring does not train")
	}
	w.checkAtRest(ring)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
