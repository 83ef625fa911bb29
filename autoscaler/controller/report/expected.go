// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// unforeseen are the reasons of which a forecast knows nothing: it counts slots, and a user
// may end the others at any time.
var unforeseen = []waiting.Reason{waiting.Fragmented, waiting.Constraint, waiting.Paused, waiting.Held, waiting.Invalid}

// Expect returns a status with the expected starts of the jobs that wait, except of those that
// began to wait after the forecast.
func Expect(s *api.Status, starts map[identity.JobKey]api.Expected) *api.Status {
	out := *s
	out.Jobs = slices.Clone(s.Jobs)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		if j.Waits == nil {
			continue
		}
		w := *j.Waits
		w.Expected = nil
		if e, ok := starts[j.JobKey]; ok && !e.Made.Before(w.Since) && !slices.Contains(unforeseen, w.Reason) {
			w.Expected = &e
		}
		j.Waits = &w
	}
	return &out
}
