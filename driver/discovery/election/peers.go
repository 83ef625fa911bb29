// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

// learn keeps what a peer reports of itself. Of its rings, the formed ones are facts; the
// others count only with its promise or agreement (see Answer).
func (m *Machine) learn(s State) {
	id := s.From.AllocID
	if id == m.cfg.Self.AllocID {
		return
	}
	if old, ok := m.met[id]; ok && old.Process < s.Process {
		m.dead[old.process()] = true
		delete(m.acked, id)
	}
	m.met[id] = s
	if p, ok := m.view[id]; ok {
		p.Index, p.Group = s.From.Index, s.From.Group
		m.view[id] = p
	}
	delete(m.refused, id)
	m.highest = max(m.highest, s.Promised, s.LeaderTerm)
	m.rings = m.rings.choose(s.Rings.Chosen)
}

// send sends a peer a request. The outcome counts for the given round or proposal.
func (m *Machine) send(to Peer, req Request, c call) {
	m.lastCall++
	req.State = m.state()
	c.to, c.kind, c.term, c.known = to, req.Kind, req.Term, m.processes(to.AllocID)
	m.calls[m.lastCall] = c
	m.out = append(m.out, Call{ID: m.lastCall, To: to, Request: req})
}

// processes returns the allocation's processes that this agent knows of.
func (m *Machine) processes(allocID string) []Process {
	var out []Process
	if c, ok := m.met[allocID]; ok {
		out = append(out, c.process())
	}
	for _, r := range m.rings.without(Ring{}) {
		for _, h := range r.Hosts {
			if h.AllocID == allocID {
				out = append(out, h.process())
			}
		}
	}
	return out
}

// targets returns the peers to ask: those registered, and the hosts of known rings whose
// address is known.
func (m *Machine) targets() []Peer {
	seen := map[string]bool{m.cfg.Self.AllocID: true}
	var out []Peer
	add := func(id string) {
		if seen[id] {
			return
		}
		seen[id] = true
		if p, ok := m.view[id]; ok {
			out = append(out, p)
		} else if c, ok := m.met[id]; ok {
			out = append(out, c.From)
		}
	}
	for _, id := range sortedKeys(m.view) {
		add(id)
	}
	for _, r := range m.rings.without(Ring{}) {
		for _, h := range r.Hosts {
			add(h.AllocID)
		}
	}
	return out
}
