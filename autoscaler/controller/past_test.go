// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// A history is kept for a moment, while the job does not change.
func TestPasts(t *testing.T) {
	var p pasts
	now := time.Now()
	a, b := identity.JobKey{Namespace: "default", ID: "a"}, identity.JobKey{Namespace: "default", ID: "b"}
	valid := func(key identity.JobKey, index uint64, at time.Time) bool {
		_, ok := p.get(key, index, at)
		return ok
	}
	must.False(t, valid(a, 7, now))
	p.put(a, past{now, 7, []api.Change{{To: 4}}})
	got, ok := p.get(a, 7, now.Add(pastFor-1))
	must.True(t, ok)
	must.Eq(t, []api.Change{{To: 4}}, got)
	must.False(t, valid(a, 8, now))
	must.False(t, valid(b, 7, now))
	must.False(t, valid(a, 7, now.Add(pastFor)))

	p.put(b, past{now.Add(pastFor), 9, nil})
	must.MapLen(t, 1, p.of, must.Sprint("old ones are forgotten"))
	must.True(t, valid(b, 9, now.Add(pastFor)))
}

// Calls that follow each other ask Nomad once.
func TestController_HistoryIsKeptForAMoment(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.job("train", 4, 4)
	w.eventually(map[string]int{"train": 4})
	key := identity.JobKey{Namespace: "default", ID: "train"}
	kept := past{at: time.Now().Add(time.Hour), changes: []api.Change{{Message: "kept"}}} // valid for the whole test
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {                          // unless the job changes right now
		kept.index = a.indexOf(key)
		a.pasts.put(key, kept)
		got, err := a.History(t.Context(), key)
		return err == nil && len(got) == 1 && got[0] == kept.changes[0]
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	a.pasts.put(key, past{kept.at, kept.index - 1, kept.changes})
	got, err := a.History(t.Context(), key)
	must.NoError(t, err)
	must.NotEq(t, kept.changes, got)
}
