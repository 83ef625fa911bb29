// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "slices"

// checkSpares fails if a world at rest has too many spares or too few, or one that is not
// ready.
func (w *world) checkSpares(ring *Ring) {
	staying, spares := 0, 0
	for _, h := range w.hosts {
		known := w.m.hosts[h.info.ID]
		if h.leaving || known == nil || !known.staying() {
			continue
		}
		staying++
		if !known.spare {
			continue
		}
		spares++
		if slices.Contains(ring.Hosts(), h.info.ID) {
			w.fail("%s is a spare, and in the ring", h.info.ID)
		}
		for l, s := range h.slots[:known.offered()] {
			if !known.slots[l].leaving && s.State != Arrived && s.State != Waiting {
				w.fail("slot %d of spare %s is %v", l, h.info.ID, s.State)
			}
		}
	}
	if spares > w.opt.SpareHosts {
		w.fail("%d spares of at most %d", spares, w.opt.SpareHosts)
	}
	if w.m.SparesReady() != spares {
		w.fail("%d spares are ready of %d", w.m.SparesReady(), spares)
	}
}
