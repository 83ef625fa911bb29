// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"cmp"
	"slices"
)

// Process is one run of an allocation's agent. A restarted agent is another
// process, which has forgotten the promises of the earlier one.
type Process struct {
	AllocID string
	// ID rises with each process of the allocation.
	ID uint64
}

// Compare orders processes by allocation, then age.
func (p Process) Compare(o Process) int {
	return cmp.Or(cmp.Compare(p.AllocID, o.AllocID), cmp.Compare(p.ID, o.ID))
}

// Host is one agent process as a member of a ring. An agent that has restarted, or
// that Nomad has dropped and registered again, is a different host. It has no vote
// on the successor of a ring that it was in before.
type Host struct {
	AllocID string
	// Process is the host's Process.ID.
	Process uint64
	// Registered is the create index of the service registration, 0 for a host that
	// was not registered when the ring was formed.
	Registered uint64
}

// process returns the host's process.
func (h Host) process() Process { return Process{h.AllocID, h.Process} }

// Ring is a set of hosts that were allowed to train together.
type Ring struct {
	// Registry is the registry index at which the ring's leader last saw the job's
	// instances change, or the higher one of a ring that this one was built on. It
	// tells the old ring from the new one if Nomad has dropped the old ring's hosts
	// and others went on without them.
	Registry uint64
	// Term and Leader identify the leader that formed the ring.
	Term   uint64
	Leader Process
	// Generation is the ring's number. It rises with each ring of a job.
	Generation uint64
	// Hosts are in the leader's order; the first one breaks ties.
	Hosts []Host
}

// IsZero reports whether there is no ring.
func (r Ring) IsZero() bool { return len(r.Hosts) == 0 }

// Compare orders rings by registry index, term, leader and generation. A ring comes
// after the rings that it was built on.
func (r Ring) Compare(o Ring) int {
	return cmp.Or(cmp.Compare(r.Registry, o.Registry), cmp.Compare(r.Term, o.Term), r.Leader.Compare(o.Leader), cmp.Compare(r.Generation, o.Generation))
}

// Has reports whether the allocation is a host of r.
func (r Ring) Has(allocID string) bool {
	return slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.AllocID == allocID })
}

// supersedes reports whether r is a later proposal of the leader and term that
// proposed o. A leader proposes one ring at a time, so it has given up o.
func (r Ring) supersedes(o Ring) bool {
	return r.Term == o.Term && r.Leader == o.Leader &&
		(r.Generation > o.Generation || (r.Generation == o.Generation && r.Registry > o.Registry))
}

// majority reports whether the hosts that vote are more than half of r, or half of
// r including its first host. Any two majorities of a ring have a host in common.
func (r Ring) majority(votes func(Host) bool) bool {
	n := 0
	for _, h := range r.Hosts {
		if votes(h) {
			n++
		}
	}
	return 2*n > len(r.Hosts) || (n > 0 && 2*n == len(r.Hosts) && votes(r.Hosts[0]))
}

// Rings holds the rings of a job as far as an agent knows them.
type Rings struct {
	// Chosen is the highest ring known to have been formed.
	Chosen Ring
	// Pending are rings above Chosen, in order, that were proposed and may have
	// been formed: their leader has not reported whether they were.
	Pending []Ring
}

// Last returns the last ring in the order of Compare.
func (s Rings) Last() Ring {
	if n := len(s.Pending); n > 0 {
		return s.Pending[n-1]
	}
	return s.Chosen
}

// Latest returns the ring with the highest generation.
func (s Rings) Latest() Ring {
	out := s.Chosen
	for _, r := range s.Pending {
		if r.Generation > out.Generation {
			out = r
		}
	}
	return out
}

// highest returns the highest generation and the highest term used.
func (s Rings) highest() (generation, term uint64) {
	for _, r := range append([]Ring{s.Chosen}, s.Pending...) {
		generation, term = max(generation, r.Generation), max(term, r.Term)
	}
	return generation, term
}

// propose returns s with the ring pending.
func (s Rings) propose(r Ring) Rings {
	if r.IsZero() || r.Compare(s.Chosen) <= 0 {
		return s
	}
	out := Rings{Chosen: s.Chosen}
	for _, p := range s.Pending {
		if p.Compare(r) == 0 || p.supersedes(r) {
			return s
		}
		if !r.supersedes(p) {
			out.Pending = append(out.Pending, p)
		}
	}
	out.Pending = append(out.Pending, r)
	slices.SortFunc(out.Pending, Ring.Compare)
	return out
}

// choose returns s with the ring formed.
func (s Rings) choose(r Ring) Rings {
	if r.Compare(s.Chosen) <= 0 {
		return s
	}
	out := Rings{Chosen: r}
	for _, p := range s.Pending {
		if p.Compare(r) > 0 {
			out.Pending = append(out.Pending, p)
		}
	}
	return out
}

// merge returns everything that s and o know.
func (s Rings) merge(o Rings) Rings {
	s = s.choose(o.Chosen)
	for _, p := range o.Pending {
		s = s.propose(p)
	}
	return s
}

// covers reports whether s includes every ring of o.
func (s Rings) covers(o Rings) bool {
	m := s.merge(o)
	return m.Chosen.Compare(s.Chosen) == 0 && slices.EqualFunc(m.Pending, s.Pending,
		func(a, b Ring) bool { return a.Compare(b) == 0 })
}

// without returns the known rings except r.
func (s Rings) without(r Ring) []Ring {
	var out []Ring
	for _, k := range append([]Ring{s.Chosen}, s.Pending...) {
		if !k.IsZero() && k.Compare(r) != 0 {
			out = append(out, k)
		}
	}
	return out
}
