// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"encoding/json"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// load reads a policy's own state. State that does not parse (written by another
// policy or an older version) counts as none: every policy can start from nothing.
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
		// States are plain structs of finite numbers. A NaN among them must not
		// bring the autoscaler down.
		return
	}
	d.State = b
}

// requeue requests another decision at t, unless an earlier one is requested
// already. It ignores times that are not in the future, and infinity.
func requeue(d *policy.Decision, now, t float64) {
	if t > now && !math.IsInf(t, 1) && (d.RequeueAt == 0 || t < d.RequeueAt) {
		d.RequeueAt = t
	}
}
