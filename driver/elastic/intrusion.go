// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// maxIntrusionDelay is the longest wait for the next ring after an intrusion.
const maxIntrusionDelay = 30 * time.Second

// intruded breaks a ring that a process outside it is connected to. After the first
// intrusion, the next ring forms at once. Each further one doubles the wait, so that the
// job neither trains with the intruder nor spends its machines on retries.
func (m *Machine) intruded(ev Intruded) {
	if m.intact() == nil || m.last.Generation != ev.Generation {
		return
	}
	m.intrusions = Forgive(m.intrusions, m.now.Sub(m.intrudedAt)) + 1
	m.intrudedAt = m.now
	if n := m.intrusions; n > 1 {
		m.formAfter = m.now.Add(min(time.Second<<min(n-2, 10), maxIntrusionDelay))
	}
	m.memberLost() // a member that hangs from now on is not waiting for a commit
	m.breakRing(m.startDissolving())
}
