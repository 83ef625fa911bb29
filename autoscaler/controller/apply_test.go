// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// TestController_KeepsAgain checks when a waiting job is protected again.
func TestController_KeepsAgain(t *testing.T) {
	due := time.Now().Add(-time.Minute)
	for name, tc := range map[string]struct {
		done        cluster.Written
		err         error
		least, most time.Duration // until it is to be protected again
	}{
		"tagged":            {done: cluster.Written{Tagged: true}, least: 2 * time.Hour, most: 4 * time.Hour},
		"scaled":            {done: cluster.Written{Steps: 1}, least: 2 * time.Hour, most: 4 * time.Hour},
		"too young for it":  {least: 10 * time.Minute, most: time.Hour},
		"Nomad is away":     {err: errors.New("connection refused"), least: -time.Hour, most: 0},
		"the job has moved": {err: cluster.ErrStale, least: -time.Hour, most: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			c := w.config()
			a, err := New(c, nil, hclog.NewNullLogger())
			must.NoError(t, err)
			key := identity.JobKey{Namespace: "default", ID: "a"}
			a.history.Jobs[key] = &history.Job{}
			j := a.job(key)
			j.keepUntil = due.Add(c.Planner.GCProtection)
			a.applied(planner.Action{Job: key, Cause: planner.Keep, Steps: []planner.Step{{Group: "g"}}}, tc.done, tc.err, 0, nil)
			again := time.Until(j.keepUntil.Add(-c.Planner.GCProtection))
			must.Between(t, tc.least, again, tc.most)
		})
	}
}

func TestController_ReportForgetsWhatIsOver(t *testing.T) {
	w := newWorld(t, 1, 1)
	a, err := New(w.config(), nil, hclog.NewNullLogger())
	must.NoError(t, err)
	aside := func(ids ...string) (out []cluster.IneligibleJob) {
		for _, id := range ids {
			out = append(out, cluster.IneligibleJob{Key: identity.JobKey{Namespace: "default", ID: id}, Problems: problem.List{{Field: "here", Text: "a mistake"}}})
		}
		return out
	}
	a.report(t.Context(), aside("a", "b"))
	must.MapLen(t, 2, a.reported)
	a.report(t.Context(), aside("b"))
	must.MapLen(t, 1, a.reported)
	a.report(t.Context(), []cluster.IneligibleJob{{Key: aside("b")[0].Key, Off: true}})
	must.MapEmpty(t, a.reported)
}
