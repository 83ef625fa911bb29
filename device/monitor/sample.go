// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// sampleWait is how long a round of samples waits for one GPU. A late sample is
// used when it arrives, so that a hanging GPU does not delay the others.
const sampleWait = time.Second

// sampled is the answer of a GPU.
type sampled struct {
	gpu    *inventory.GPU
	round  int
	all    bool
	sample nvml.Sample
	err    error
}

// sample reads every GPU that is not being read already. An error concerns NVML as
// a whole.
func (m *Monitor) sample(now time.Time) error {
	defer m.shareReadings()
	m.round++
	queue := m.due(now)
	waiting := len(queue)
	go m.work(queue)
	limit := time.NewTimer(sampleWait)
	defer limit.Stop()
	var unavailable error
	for waiting > 0 {
		select {
		case s := <-m.sampled:
			if s.round == m.round {
				waiting--
			}
			unavailable = cmp.Or(unavailable, m.take(now, s))
		case <-limit.C:
			if len(queue) == 0 {
				return unavailable
			}
			// The worker hangs on a GPU; another one reads the rest.
			go m.work(queue)
			limit.Reset(sampleWait)
		}
	}
	return unavailable
}

// due returns a closed queue of the GPUs to sample. A GPU whose last sample is
// overdue counts as hung.
func (m *Monitor) due(now time.Time) chan sampled {
	queue := make(chan sampled, len(m.inventory.GPUs))
	defer close(queue)
	for _, g := range m.inventory.GPUs {
		last := m.current[g.Facts.UUID]
		since, busy := m.samplingSince[g]
		switch {
		case g.Handle == nil:
			delete(m.current, g.Facts.UUID)
		case busy && now.Sub(since) >= m.cfg.Health.CallTimeout:
			g.Err = nvml.ErrHung
			delete(m.current, g.Facts.UUID)
		case !busy:
			m.samplingSince[g] = now
			queue <- sampled{gpu: g, round: m.round, all: last == nil || now.Sub(last.allAt) >= allEvery}
		}
	}
	return queue
}

// work reads GPUs one after the other. It ends after the last one; a hanging GPU
// may delay it.
func (m *Monitor) work(queue <-chan sampled) {
	for s := range queue {
		s.sample, s.err = s.gpu.Handle.Sample(s.all)
		select {
		case m.sampled <- s:
		case <-m.done:
		}
	}
}

// take turns a sample into a reading and assesses the GPU by it. An error concerns
// NVML as a whole.
func (m *Monitor) take(now time.Time, s sampled) error {
	g, id := s.gpu, s.gpu.Facts.UUID
	delete(m.samplingSince, g)
	if !slices.Contains(m.inventory.GPUs, g) {
		return nil // the inventory was read again meanwhile
	}
	switch {
	case s.err == nil:
		m.current[id] = m.current[id].next(now, s.sample, s.all)
		m.assessSample(now, g, m.current[id].Sample)
	case nvml.Unavailable(s.err):
		return s.err
	default:
		delete(m.current, id)
	}
	g.Err = s.err
	return nil
}

// takeLate uses a sample that arrived after its round.
func (m *Monitor) takeLate(now time.Time, s sampled) {
	defer m.publish()
	defer m.shareReadings()
	if err := m.take(now, s); err != nil {
		m.nvmlUnavailable(now, err)
		return
	}
	m.assess(now)
}

// shareReadings publishes the readings.
func (m *Monitor) shareReadings() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings = maps.Clone(m.current)
}
