// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

// Current returns the current leadership.
func (e *Elector) Current() Leadership {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Leadership()
}

// Problem returns what keeps this agent without a leader, nil if it has one.
func (e *Elector) Problem() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problem()
}
