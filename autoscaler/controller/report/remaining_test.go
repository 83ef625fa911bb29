// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// TestRemainingOf: a declaration takes precedence over a report, and both over the lengths
// of other jobs.
func TestRemainingOf(t *testing.T) {
	r := drawing(t, ``, "x/1 a 50 1")
	r.History = history.New()
	r.Jobs[0].Job = &history.Job{}
	must.Nil(t, remainingOf(r, 0))

	j, f := &r.View.Jobs[0], &r.View.Facts[0]
	f.Spec.Kind = "bert"
	for range 5 {
		r.History.LearnService(history.GroupOf(history.KindKey(j.Key, f.Spec.Kind), j.Pool), true, &history.Job{Attained: 400}, time.Unix(1e9, 0))
	}
	got := remainingOf(r, 0)
	must.Eq(t, "kind", got.Origin)
	must.Eq(t, 5, got.Jobs)
	must.Between(t, 300, got.Low, 400)
	must.Between(t, 400, got.High, 500)

	r.Jobs[0].Total, r.Jobs[0].Done = 1000, 300
	must.Eq(t, &api.Remaining{Origin: api.OriginTraining, Steps: 700}, remainingOf(r, 0))
	f.Spec.TotalWork = 800
	must.Eq(t, &api.Remaining{Origin: api.OriginJob, Steps: 500}, remainingOf(r, 0))
	r.Jobs[0].Frozen = true
	must.Nil(t, remainingOf(r, 0))
}
