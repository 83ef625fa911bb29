// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/leader"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

func soon(t *testing.T, what string, check func() bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(check), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)), must.Sprint(what))
}

// TestFollow_AllAgentsLearnOfTheControl has two agents, and a wish at the one
// that does not lead.
func TestFollow_AllAgentsLearnOfTheControl(t *testing.T) {
	w := newWorld(t, 1, 4)
	first, _ := w.start(w.config())
	soon(t, "a leader", first.Leads)
	follower, _ := w.start(w.config())
	train := planner.JobKey{Namespace: "default", ID: "train"}
	paused := func(a *Controller) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.control.paused("default/train")
	}
	must.ErrorIs(t, follower.Pause(t.Context(), "a caller's", train), leader.ErrNotLeading)
	must.NoError(t, follower.Pause(t.Context(), "", train))
	soon(t, "the pause", func() bool { return paused(first) && paused(follower) })
	must.NoError(t, first.Resume(t.Context(), "", train))
	soon(t, "its end", func() bool { return !paused(first) && !paused(follower) })

	t.Log("what cannot be read changes nothing")
	must.NoError(t, first.Pause(t.Context(), "", train))
	w.nomad.EditVariable(controlPath, func(items map[string]string) { items[dataItem] = "{" })
	w.nomad.EditVariable(controlPath, func(items map[string]string) { items[dataItem] = `{"all":true}` })
	soon(t, "what came after", func() bool { return follower.Status().Paused })
}

func TestTakeControl_TheNewerOneStays(t *testing.T) {
	a := &Controller{}
	must.Eq(t, "pause", a.takeControl(Control{All: true}, 10))
	must.Eq(t, "", a.takeControl(Control{}, 9))
	must.Eq(t, "", a.takeControl(Control{}, 10))
	must.True(t, a.control.All)
	must.Eq(t, "", a.takeControl(Control{All: true}, 11))
	must.Eq(t, "policy", a.takeControl(Control{All: true, Policies: map[string]string{"default": "fifo"}}, 12))
	a.forgetControl()
	must.Eq(t, "pause", a.takeControl(Control{}, 3))
}
