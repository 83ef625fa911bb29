// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace_test

import (
	"math"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// FuzzReadNodeEvents passes any bytes to the reader. It either fails, or returns events in
// order, at times that a simulation can reach.
func FuzzReadNodeEvents(f *testing.F) {
	f.Add("time,node,event\n10,n1,down\n20,n1,up\n")
	f.Add("event,node,time\nwithdraw,\"a,b\",1e300\nup,,0\n")
	f.Add("time,node,event\nNaN,n,up\n")
	f.Fuzz(func(t *testing.T, text string) {
		events, err := trace.ReadNodeEvents(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		last := 0.0
		for _, e := range events {
			must.GreaterEq(t, last, e.Time)
			must.False(t, math.IsInf(e.Time, 0))
			last = e.Time
		}
	})
}
