// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// remainingOf returns the declared or predicted remaining work of a job of the view, or nil if
// it is unknown.
func remainingOf(r *Round, i int) *api.Remaining {
	j, f, h := &r.View.Jobs[i], &r.View.Facts[i], r.Jobs[i]
	if h.Frozen {
		return nil
	}
	if steps := h.Work(f.Spec.TotalWork) - h.Done; steps > 0 {
		out := &api.Remaining{Origin: api.OriginTraining, Steps: steps}
		if f.Spec.TotalWork > 0 {
			out.Origin = api.OriginJob
		}
		return out
	}
	alike := r.History.Alike(history.GroupOf(history.KindKey(j.Key, f.Spec.Kind), j.Pool))
	if alike.Count == 0 {
		return nil
	}
	low, high := alike.Range(h.Attained)
	return &api.Remaining{Origin: string(alike.Origin), Jobs: alike.Count, Low: low, High: high}
}
