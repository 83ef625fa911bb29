// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestIdle(t *testing.T) {
	var idle Idle[int]
	at := func(minute, seen int) time.Duration {
		return idle.For(seen, time.Unix(0, 0).Add(time.Duration(minute)*time.Minute))
	}
	must.Eq(t, 0, at(1, 0))
	must.Eq(t, 4*time.Minute, at(5, 0))
	must.Eq(t, 0, at(6, 1)) // whatever the time since the first call
	must.Eq(t, time.Minute, at(7, 1))
	must.Eq(t, 0, at(8, 0))
}
