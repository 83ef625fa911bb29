// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

func TestController_ProtectsAParkedJobWhileItWaits(t *testing.T) {
	w := newWorld(t, 1, 4)
	c := w.config()
	w.protectAfter = time.Millisecond
	w.start(c)
	w.job("a", 4, 4)
	w.eventually(map[string]int{"a": 4})
	w.job("b", 4, 4)
	tagged := func(want bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.nomad.Tagged("b") == want }),
			wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	tagged(true)
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
	tagged(false)
}

// A waiting job is stopped. Nomad then disables its scaling block, so the autoscaler no
// longer changes it.
func TestController_LetsGoOfAJobThatIsStopped(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.protectAfter = time.Millisecond
	w.start(w.config())
	w.job("a", 5, 5) // never fits
	tagged := func(want bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.nomad.Tagged("a") == want }),
			wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	tagged(true)
	w.nomad.Stop("a")
	tagged(false)
}
