// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"errors"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// assess decides the health of every unit.
func (m *Monitor) assess(now time.Time) {
	unavailable := ""
	switch {
	case m.nvmlErr != nil:
		unavailable = "NVML is not available: " + nvml.Cause(m.nvmlErr)
	case !m.connected:
		unavailable = "NVML is not available"
	}
	for _, e := range m.lateEvents {
		m.record(now, e)
	}
	m.lateEvents = nil
	for _, g := range m.inventory.GPUs {
		m.assessGPU(now, g, unavailable)
	}
	if unavailable == "" {
		m.assessIslands(now)
	}
	for id, h := range m.health {
		if !h.decide(now) {
			continue
		}
		m.dirty = true
		if h.healthy {
			m.log.Info("a GPU is healthy again", "gpu", id)
		} else {
			m.log.Warn("a GPU is unhealthy", "gpu", id, "reason", h.reason)
		}
	}
}

// assessGPU turns the reachability of a GPU into faults. While NVML is unavailable,
// the GPU's reachability is unknown.
func (m *Monitor) assessGPU(now time.Time, g *inventory.GPU, unavailable string) {
	lost, call := "", ""
	switch err := g.Err; {
	case err == nil:
	case errors.Is(err, inventory.ErrUnlisted), errors.Is(err, nvml.ErrGPULost), errors.Is(err, nvml.ErrResetRequired):
		lost = nvml.Cause(err)
	default:
		call = "the GPU does not answer: " + nvml.Cause(err)
	}
	m.eachUnit(g.Facts.UUID, func(h *health) {
		h.set(now, causeNVML, unavailable)
		if unavailable != "" {
			return
		}
		if lost == "" && h.has(causeLost) {
			h.clearLatched()
		}
		h.set(now, causeLost, lost)
		h.set(now, causeCall, call)
	})
}

// assessSample turns a sample into faults.
func (m *Monitor) assessSample(now time.Time, g *inventory.GPU, s nvml.Sample) {
	// Memory that waits for a reset to be remapped does not make a GPU unhealthy,
	// because the driver keeps programs off it. The check command and the metrics
	// report it.
	memory := ""
	if s.RemapFailed != nil && *s.RemapFailed {
		memory = "bad memory rows could not be remapped"
	}
	fabric := ""
	if f := s.Fabric; f != nil && f.Problem != "" {
		fabric = "NVLink fabric: " + f.Problem
	}
	m.eachUnit(g.Facts.UUID, func(h *health) {
		h.set(now, causeMemory, memory)
		h.set(now, causeRecovery, s.Recovery)
		h.set(now, causeFabric, fabric)
		if s.ECCUncorrected != nil {
			h.countUncorrected(now, *s.ECCUncorrected)
		}
	})
}

// assessIslands finds units that are no longer linked with the group that they are
// offered in, if groups are islands.
func (m *Monitor) assessIslands(now time.Time) {
	if m.cfg.GroupBy != inventory.GroupByNVLink {
		return
	}
	failing := map[string]bool{}
	for _, g := range m.inventory.GPUs {
		failing[g.Facts.UUID] = g.Err != nil
	}
	for i, u := range m.layout.Units {
		why := ""
		if m.layout.Isolated(i) && !failing[u.GPU.UUID] {
			why = "its NVLinks to the rest of " + m.layout.IslandName(i) + " are down"
		}
		m.health[u.ID()].set(now, causeIsland, why)
	}
}

// eachUnit calls f for the health of every unit of a GPU.
func (m *Monitor) eachUnit(gpu string, f func(*health)) {
	for _, u := range m.layout.Units {
		if u.GPU.UUID == gpu {
			f(m.health[u.ID()])
		}
	}
}
