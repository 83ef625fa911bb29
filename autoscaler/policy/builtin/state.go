// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"encoding/json"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// load reads a policy's own state. State that does not parse (of another
// policy, or an older version) counts as none: every policy can start
// from nothing.
func load[T any](s *policy.Snapshot) T {
	var state T
	if len(s.State) == 0 {
		return state
	}
	if err := json.Unmarshal(s.State, &state); err != nil {
		var none T
		return none
	}
	return state
}

// save writes a policy's own state.
func save(d *policy.Decision, state any) {
	b, err := json.Marshal(state)
	if err != nil {
		// States are plain structs of finite numbers; a NaN among them must
		// not take the autoscaler down.
		return
	}
	d.State = b
}

// requeue asks for another decision at t, or earlier if one was asked for already.
// Times that are not in the future, or never come, ask for nothing.
func requeue(d *policy.Decision, now, t float64) {
	if t > now && !math.IsInf(t, 1) && (d.RequeueAt == 0 || t < d.RequeueAt) {
		d.RequeueAt = t
	}
}
