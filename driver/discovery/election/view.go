// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"maps"
	"time"
)

// View processes a reading of the registry.
func (m *Machine) View(now time.Duration, v View) []Action {
	m.now = now
	if m.viewed && v.Index < m.index && v.At <= m.received {
		return nil // older than the current one
	}
	if m.viewed && v.Index == m.index {
		m.at = max(m.at, v.At)
		m.considerProposal()
		return m.flush()
	}
	peers := make(map[string]Peer, len(v.Peers))
	for _, p := range v.Peers {
		if c, ok := m.met[p.AllocID]; ok {
			p.Index, p.Group = c.From.Index, c.From.Group // the registry may not know
		}
		if p.AllocID == m.cfg.Self.AllocID {
			m.cfg.Self.Addr, m.joined = p.Addr, true // where the others reach it
			p.Index, p.Group = m.cfg.Self.Index, m.cfg.Self.Group
		}
		peers[p.AllocID] = p
	}
	if !m.viewed || !sameInstances(m.view, peers) {
		m.viewed, m.changed = true, v.Index
	}
	m.view, m.index, m.received = peers, v.Index, now
	m.at = max(m.at, v.At)
	m.forget()
	switch {
	case m.phase == waiting && m.joined:
		m.campaign()
	case m.phase == paused && m.tries > 0:
		m.wake = min(m.wake, now+m.jitter(m.cfg.Retry/8))
	case m.phase == leading:
		m.announce()
		m.yield()
		m.sendProposal()
	}
	m.considerProposal()
	return m.flush()
}

// sameInstances reports whether the registrations are the same.
func sameInstances(a, b map[string]Peer) bool {
	return maps.EqualFunc(a, b, func(p, q Peer) bool { return p.Registered == q.Registered })
}

// forget drops entries that can no longer matter, so that the state stays small in
// a long job with many allocations.
func (m *Machine) forget() {
	rings := m.rings.without(Ring{})
	inRing := func(id string) bool {
		for _, r := range rings {
			if r.Has(id) {
				return true
			}
		}
		return false
	}
	for id := range m.met {
		if _, ok := m.view[id]; !ok && !inRing(id) && id != m.leader.AllocID {
			delete(m.met, id)
			delete(m.refused, id)
			delete(m.acked, id)
		}
	}
	for p := range m.dead {
		_, registered := m.view[p.AllocID]
		if !inRing(p.AllocID) && (!registered || p.ID < m.met[p.AllocID].Process) {
			delete(m.dead, p)
		}
	}
}
