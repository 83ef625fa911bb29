// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"cmp"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// readProgress reads new progress lines of a slot and reports them to the leader: the
// first of a ring at once, because it shows that the ring trains, later ones every second.
func (h *Host) readProgress(s *slot) {
	if s.progress.path == "" {
		return
	}
	lines := s.progress.read()
	if at := s.progress.stepped(); at > 0 {
		lines = append(lines, wire.Progress{SteppedAt: at})
	}
	h.report(s, lines)
}

// reportLast reports the last progress in a ring that the process leaves.
func (h *Host) reportLast(s *slot) {
	h.readProgress(s)
	if s.State == elastic.InRing && s.latest.Newest() > 0 {
		h.sendProgress(s)
	}
}

func (h *Host) sendProgress(s *slot) {
	p := s.latest
	s.latest.Made, s.latest.Slowest, s.latest.Last = 0, 0, nil
	h.send(&wire.ToLeader{Progress: &p})
}

// progressed handles progress that a process reports through its endpoint.
func (h *Host) progressed(p elastic.Proc, e Endpoint, gen uint64, report wire.Progress) {
	if s := h.find(p); s != nil && s.endpoint == e && s.Generation == gen {
		h.report(s, []wire.Progress{report})
	}
}

// report updates the slot's progress from new lines, and reports it if that is due.
func (h *Host) report(s *slot, lines []wire.Progress) {
	if s.State != elastic.InRing {
		return
	}
	before := s.latest.Newest()
	for _, l := range lines {
		made := s.latest.Made
		if l.Slow == nil || l.Counts() {
			s.take(l)
		}
		switch {
		case l.Slow != nil:
			h.slowed(s, *l.Slow)
		case l.Step != nil && s.latest.Made > made:
			h.slowed(s, "")
		}
	}
	first := before == 0 && s.latest.Newest() > 0
	if first || s.unsent && time.Since(s.sent) >= time.Second {
		s.sent, s.unsent = time.Now(), false
		h.sendProgress(s)
	}
}

// take updates the slot's progress in the current ring from a line, or from a step without
// a line.
func (s *slot) take(l wire.Progress) {
	p := s.latest
	p.Generation = s.Generation
	if l.At > 0 {
		p.At, p.Samples, p.Epoch, p.TotalSteps, p.Loss, p.Adaptive = l.At, l.Samples, l.Epoch, l.TotalSteps, l.Loss, l.Adaptive
		if p.FirstAt == 0 {
			p.First, p.FirstSamples, p.FirstAt = l.Step, l.Samples, l.At
		}
	}
	numbered := l.Step != nil && (p.Step == nil || *p.Step != *l.Step)
	if numbered || p.Step == nil && l.Step == nil && l.SteppedAt > p.SteppedAt { // a step with a number may touch the file, too
		s.step(&p, time.Now())
	}
	if l.Step != nil { // a line may be about something else
		if p.Step != nil {
			p.Every = max(p.Every, *l.Step-*p.Step)
		}
		p.Step, l.SteppedAt = l.Step, l.At
	}
	p.AddLast(l.Last)
	p.SteppedAt = max(p.SteppedAt, l.SteppedAt)
	p.FirstSteppedAt = cmp.Or(p.FirstSteppedAt, p.SteppedAt)
	s.latest, s.unsent = p, true
}

// step counts a new step that is seen now. It does not compare the times of the lines, because
// the clock may be set.
func (s *slot) step(p *wire.Progress, now time.Time) {
	if !s.stepped.IsZero() {
		p.Slowest = max(p.Slowest, now.Sub(s.stepped).Seconds())
	}
	p.Made++
	s.stepped = now
}
