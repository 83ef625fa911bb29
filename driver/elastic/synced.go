// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// markSynced records that every member of the ring has the state. The evidence is a
// reported step, the age of the ring (syncGrace), or that all members connected and then left
// it alive because of a notice: Horovod handles notices at a commit, after rank 0 has broadcast
// its state.
func (m *Machine) markSynced() {
	if m.restarts {
		return // processes of the next ring do not get their state from this one
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

// syncGrace returns the age at which a ring counts as synced without other evidence. It is
// longer if the script reports its steps, because a ring without a reported step may still
// be broadcasting a large state. It is not infinite, because a script may report only once
// per epoch.
func (m *Machine) syncGrace() time.Duration {
	if m.stepsReported {
		return 10 * m.opt.SyncGrace
	}
	return m.opt.SyncGrace
}

// stateHeld reports whether any process with the training state is left.
func (m *Machine) stateHeld() bool {
	return m.partsHeld(func(s *slot) bool { return s.state != Down && !s.stopping })
}
