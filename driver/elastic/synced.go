// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// markSynced records that every member of the ring holds the state. Evidence is
// a reported step, or that all members, alive, left the ring because of a notice:
// Horovod handles notices at a commit, after rank 0 has broadcast its state.
func (m *Machine) markSynced() {
	if m.restarts {
		return // no process of the next ring gets its state from one of this
	}
	changed := false
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.generation == m.last.Generation && s.syncedSince == 0 {
			s.syncedSince, changed = m.last.Generation, true
		}
	}
	if changed {
		m.do(Synced{Generation: m.last.Generation})
	}
}

// syncGrace is the age at which a ring counts as synced without other evidence.
// Where the script reports its steps, this ring has made none yet: rank 0 may
// still broadcast a large state. But a script may also report once an epoch.
func (m *Machine) syncGrace() time.Duration {
	if m.stepsReported {
		return 10 * m.opt.SyncGrace
	}
	return m.opt.SyncGrace
}

// stateHeld reports whether a process that holds the training state is left.
func (m *Machine) stateHeld() bool {
	return m.partsHeld(func(s *slot) bool { return s.state != Down && !s.stopping })
}
