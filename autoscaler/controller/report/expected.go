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

// Expect returns a copy of a status in which the expected starts of waiting jobs are replaced.
func Expect(s *api.Status, starts map[identity.JobKey]api.Expected) *api.Status {
	out := *s
	out.Jobs = slices.Clone(s.Jobs)
	for i := range out.Jobs {
		if j := &out.Jobs[i]; j.Waits != nil {
			w := *j.Waits
			j.Waits = &w
			expect(j, starts)
		}
	}
	return &out
}

// expect sets the expected start of a job that waits. A job that began to wait after the
// forecast has none.
func expect(j *api.JobStatus, starts map[identity.JobKey]api.Expected) {
	j.Waits.Expected = nil
	if e, ok := starts[j.JobKey]; ok && !e.Made.Before(j.Waits.Since) && !slices.Contains(unforeseen, j.Waits.Reason) {
		j.Waits.Expected = &e
	}
}
