// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// patience is how long a round of samples waits for one GPU. What it says later
// is taken then, so that a GPU that hangs does not hold up the others.
const patience = time.Second

// sampled is what a GPU answered.
type sampled struct {
	card   *card
	round  int
	all    bool
	sample nvml.Sample
	err    error
}

// sample reads every GPU that is not still being read. The error is of NVML as
// a whole.
func (m *monitor) sample(now time.Time) error {
	defer m.share()
	m.round++
	waiting := 0
	queue := make(chan sampled, len(m.machine.cards))
	for _, c := range m.machine.cards {
		last := m.current[c.facts.UUID]
		switch {
		case c.gpu == nil:
			delete(m.current, c.facts.UUID)
		case c.busy && now.Sub(c.begun) >= m.cfg.Health.CallTimeout:
			c.missing = nvml.ErrHung
			delete(m.current, c.facts.UUID)
		case !c.busy:
			c.busy, c.begun = true, now
			queue <- sampled{card: c, round: m.round, all: last == nil || now.Sub(last.rest) >= restEvery}
			waiting++
		}
	}
	close(queue)
	go m.work(queue)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	var gone error
	for waiting > 0 {
		select {
		case r := <-m.sampled:
			if r.round == m.round {
				waiting--
			}
			gone = cmp.Or(gone, m.take(now, r))
		case <-limit.C:
			if len(queue) == 0 {
				return gone
			}
			// The others are for somebody else.
			go m.work(queue)
			limit.Reset(patience)
		}
	}
	return gone
}

// work reads GPUs one after the other. It ends when the last is read, which one
// that hangs may put off.
func (m *monitor) work(queue <-chan sampled) {
	for r := range queue {
		r.sample, r.err = r.card.gpu.Sample(r.all)
		select {
		case m.sampled <- r:
		case <-m.done:
		}
	}
}

// take puts a sample among the readings and judges the GPU by it. The error is
// of NVML as a whole.
func (m *monitor) take(now time.Time, r sampled) error {
	c, id := r.card, r.card.facts.UUID
	c.busy = false
	if !slices.Contains(m.machine.cards, c) {
		return nil // the machine was read anew meanwhile
	}
	switch {
	case r.err == nil:
		m.current[id] = m.current[id].next(now, r.sample, r.all)
		m.judge(now, c, m.current[id].sample)
	case nvml.Gone(r.err):
		return r.err
	default:
		delete(m.current, id)
	}
	c.missing = r.err
	return nil
}

// share lets others see the readings.
func (m *monitor) share() {
	readings := maps.Clone(m.current)
	m.readings.Store(&readings)
}

// late takes a sample that came after its round.
func (m *monitor) late(now time.Time, r sampled) {
	defer m.publish()
	defer m.share()
	if err := m.take(now, r); err != nil {
		m.away(now, err)
		return
	}
	m.assess(now)
}

// judge turns a sample into causes of trouble.
func (m *monitor) judge(now time.Time, c *card, s nvml.Sample) {
	// Memory that only waits for a reset to be remapped is no reason to stop
	// using the GPU: the driver keeps programs off it. The check command and
	// the metrics tell of it.
	memory := ""
	if s.RemapFailed != nil && *s.RemapFailed {
		memory = "bad memory rows could not be remapped"
	}
	fabric := ""
	if f := s.Fabric; f != nil && f.Problem != "" {
		fabric = "NVLink fabric: " + f.Problem
	}
	m.each(c, func(h *health) {
		h.set(now, causeMemory, memory)
		h.set(now, causeRecovery, s.Recovery)
		h.set(now, causeFabric, fabric)
		if s.ECCUncorrected != nil {
			h.uncorrected(now, *s.ECCUncorrected)
		}
	})
}
