// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

func TestExpect(t *testing.T) {
	made := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	key := identity.JobKey{Namespace: "a", ID: "j"}
	starts := map[identity.JobKey]api.Expected{key: {Made: made, Earliest: made.Add(time.Hour)}}
	for name, c := range map[string]struct {
		waits *api.Waits
		want  bool
	}{
		"it waits":                       {&api.Waits{Reason: waiting.NoRoom, Since: made.Add(-time.Minute)}, true},
		"it has started":                 {nil, false},
		"suspended after the forecast":   {&api.Waits{Reason: waiting.InQueue, Since: made.Add(time.Minute)}, false},
		"no forecast knows of the pause": {&api.Waits{Reason: waiting.Paused, Since: made.Add(-time.Minute)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &api.Status{Jobs: []api.JobStatus{{JobKey: key, Waits: c.waits}}}
			after := Expect(before, starts)
			got := after.Jobs[0].Waits
			must.Eq(t, c.want, got != nil && got.Expected != nil)
			must.True(t, c.waits == nil || c.waits.Expected == nil, must.Sprint("readers hold the status before"))
			if c.want {
				must.Eq(t, starts[key], *got.Expected)
				must.Nil(t, Expect(after, nil).Jobs[0].Waits.Expected)
			}
		})
	}
}
