// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

func TestController_PolicyAndPauseTakeEffectAndOutliveTheAgent(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, stop := w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	must.NoError(t, a.SetPaused(t.Context(), "", identity.JobKey{Namespace: "default", ID: "a"}, true))
	must.NoError(t, a.SetPolicy(t.Context(), "", "default", "fifo"))
	must.Error(t, a.SetPolicy(t.Context(), "", "default", "no-such-policy"))
	stop()

	b, _ := w.start(w.config())
	w.job("b", 1, 8)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := b.Status()
		return s.Leading && len(s.Jobs) == 2 && s.Jobs[0].State == api.StateHeld && s.Pools[0].Policy == "fifo"
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.eventually(map[string]int{"a": 8, "b": 0})
	must.NoError(t, b.SetPolicy(t.Context(), "", "default", ""))
	must.NoError(t, b.SetPaused(t.Context(), "", identity.JobKey{}, false))
	w.eventually(map[string]int{"a": 4, "b": 4})
}

// Nomad is slow to write the commands.
func TestController_CommandsThatComeTogether(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.nomad.Fault = func(method, path string) int {
		if method == http.MethodPut && path == "/v1/var/"+overridesPath {
			time.Sleep(20 * time.Millisecond)
		}
		return 0
	}
	a, stop := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(a.Leads), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	var g sync.WaitGroup
	for i := range 10 {
		g.Go(func() {
			test.NoError(t, a.SetPaused(t.Context(), "", identity.JobKey{Namespace: "default", ID: fmt.Sprint("j", i)}, true))
		})
		g.Go(func() { test.NoError(t, a.MayCommand(t.Context(), "")) })
	}
	g.Wait()
	a.mu.Lock()
	inForce := a.overrides.Paused
	a.mu.Unlock()
	must.Len(t, 10, inForce)
	stop()
	saved, _, err := a.store.LoadOverrides(t.Context())
	must.NoError(t, err)
	must.Len(t, 10, saved.Paused)
}

// Another autoscaler has written the overrides since this one read them.
func TestController_ACommandIsOnTopOfWhatIsThere(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(a.Leads), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.NoError(t, a.SetPaused(t.Context(), "", identity.JobKey{Namespace: "default", ID: "mine"}, true))
	w.nomad.EditVariable(overridesPath, func(items map[string]string) { items["data"] = `{"paused":["default/other"]}` })
	must.NoError(t, a.SetPaused(t.Context(), "", identity.JobKey{Namespace: "default", ID: "mine"}, true))
	saved, _, err := a.store.LoadOverrides(t.Context())
	must.NoError(t, err)
	must.Eq(t, []string{"default/other", "default/mine"}, saved.Paused)
}
