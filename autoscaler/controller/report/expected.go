// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// unforeseen lists the reasons for which no start is forecast: forecasts only count slots,
// and cannot know when a user changes something.
var unforeseen = []waiting.Reason{waiting.Fragmented, waiting.Constraint, waiting.Paused, waiting.Held, waiting.Invalid}

// Expect returns the status with the expected starts of waiting jobs added, except for jobs
// that began to wait after the forecast.
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
