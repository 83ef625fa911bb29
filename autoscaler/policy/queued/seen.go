// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import "github.com/kolo-nomad/kolo/autoscaler/policy"

// seen holds fingerprints of a queue as its policy saw it last.
type seen struct {
	Jobs  uint64 `json:"jobs"`
	Slots uint64 `json:"slots"` // 0 if the policy is to plan again in any case
	// Shown is a quick fingerprint of the jobs. It compares only decisions between which
	// nothing changed in the pool.
	Shown uint64 `json:"shown"`
}

// see fingerprints a queue. That of its jobs is made once in a decision, or taken over
// from the last one if nothing has changed since.
func (d *decision) see(m *member, s *policy.Snapshot) {
	m.seen.Slots = (&policy.Snapshot{Nodes: s.Nodes}).Fingerprint()
	if m.seen.Shown != 0 {
		return
	}
	m.seen.Shown = m.shown()
	if !d.s.Changed && m.before.Shown == m.seen.Shown {
		m.seen.Jobs = m.before.Jobs
		return
	}
	m.seen.Jobs = (&policy.Snapshot{Jobs: s.Jobs}).Fingerprint()
}

// shown returns a fingerprint of what this package decides about the jobs that a policy
// sees: which they are, by their place in the snapshot, and their priority and maximum. It
// hashes words by the method of FNV.
func (m *member) shown() uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for k := range m.jobs {
		for _, word := range [...]int{m.index[k], m.jobs[k].Priority, m.jobs[k].Max} {
			h = (h ^ uint64(word)) * prime
			h ^= h >> 32 // the low bits of a product do not depend on the high ones
		}
	}
	return h
}
