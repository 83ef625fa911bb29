// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

func soon(t *testing.T, what string, check func() bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(check), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)), must.Sprint(what))
}

// Of two autoscalers, the one that does not lead gets a command.
func TestFollow_AllAgentsLearnOfOverrides(t *testing.T) {
	w := newWorld(t, 1, 4)
	first, _ := w.start(w.config())
	soon(t, "a leader", first.Leads)
	follower, _ := w.start(w.config())
	train := identity.JobKey{Namespace: "default", ID: "train"}
	paused := func(a *Controller) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.overrides.IsPaused(train)
	}
	must.ErrorIs(t, follower.SetPaused(t.Context(), "a caller's", train, true), leader.ErrNotLeading)
	must.NoError(t, follower.SetPaused(t.Context(), "", train, true))
	soon(t, "the pause", func() bool { return paused(first) && paused(follower) })
	must.NoError(t, first.SetPaused(t.Context(), "", train, false))
	soon(t, "its end", func() bool { return !paused(first) && !paused(follower) })

	t.Log("what cannot be read changes nothing")
	must.NoError(t, first.SetPaused(t.Context(), "", train, true))
	w.nomad.EditVariable(overridesPath, func(items map[string]string) { items["data"] = "{" })
	w.nomad.EditVariable(overridesPath, func(items map[string]string) { items["data"] = `{"all":true}` })
	soon(t, "what came after", func() bool { return follower.Status().Paused })
}

func TestSetOverrides_TheNewerOneStays(t *testing.T) {
	a := &Controller{}
	must.Eq(t, "pause", a.setOverrides(store.Overrides{All: true}, 10))
	must.Eq(t, "", a.setOverrides(store.Overrides{}, 9))
	must.Eq(t, "", a.setOverrides(store.Overrides{}, 10))
	must.True(t, a.overrides.All)
	must.Eq(t, "", a.setOverrides(store.Overrides{All: true}, 11))
	must.Eq(t, "policy", a.setOverrides(store.Overrides{All: true, Policies: map[string]string{"default": "fifo"}}, 12))
	a.forgetOverrides()
	must.Eq(t, "pause", a.setOverrides(store.Overrides{}, 3))
}
