// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

// Current is the leadership now.
func (e *Elector) Current() Leadership {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Leadership()
}

// Problem states what keeps this agent without a leader, nil when it has one.
func (e *Elector) Problem() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problem()
}
