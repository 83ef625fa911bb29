// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"cmp"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// readProgress reads new progress lines of a slot, and reports to the leader: the
// first line of a ring at once, it shows that the ring trains; later ones every second.
func (h *Host) readProgress(s *slot) {
	if s.progress.path == "" {
		return
	}
	h.report(s, s.progress.read())
}

// progressed takes in what a process reports by its endpoint.
func (h *Host) progressed(p elastic.Proc, e Endpoint, gen uint64, report wire.Progress) {
	if s := h.find(p); s != nil && s.endpoint == e && s.Generation == gen {
		h.report(s, []wire.Progress{report})
	}
}

// report makes new lines the slot's progress, and reports it.
func (h *Host) report(s *slot, lines []wire.Progress) {
	if s.State != elastic.InRing {
		return
	}
	first := len(lines) > 0 && s.latest.FirstAt == 0
	if len(lines) > 0 {
		s.take(lines)
	}
	if first || s.unsent && time.Since(s.sent) >= time.Second {
		s.sent, s.unsent = time.Now(), false
		p := s.latest
		h.send(&wire.ToLeader{Progress: &p})
	}
}

// take makes new lines the slot's progress in the present ring.
func (s *slot) take(lines []wire.Progress) {
	before := s.latest
	if before.FirstAt == 0 {
		before = wire.Progress{First: lines[0].Step, FirstSamples: lines[0].Samples, FirstAt: lines[0].At}
	}
	step := before.Step
	for _, l := range lines { // a line may be about something else
		step = cmp.Or(l.Step, step)
	}
	s.latest, s.unsent = lines[len(lines)-1], true
	s.latest.Step = step
	s.latest.Generation, s.latest.First, s.latest.FirstSamples, s.latest.FirstAt = s.Generation, before.First, before.FirstSamples, before.FirstAt
}
