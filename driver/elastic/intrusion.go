// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// maxIntrusionDelay is the longest wait before the ring that follows one that a
// stranger connected to.
const maxIntrusionDelay = 30 * time.Second

// intruded breaks a ring that a stranger is connected to. The next one forms at once.
// A stranger that comes again and again makes each further ring wait twice as long: the
// job does not train with it, and does not spend its machines on trying.
func (m *Machine) intruded(ev Intruded) {
	if m.intact() == nil || m.last.Generation != ev.Generation {
		return
	}
	m.intrusions = Forgive(m.intrusions, m.now.Sub(m.intrudedAt)) + 1
	m.intrudedAt = m.now
	if n := m.intrusions; n > 1 {
		m.formAfter = m.now.Add(min(time.Second<<min(n-2, 10), maxIntrusionDelay))
	}
	m.memberLost() // who hangs now does not wait for a commit
	m.breakRing(m.startDissolving())
}
