// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// A job that starts answers after a while, and is to be asked until then.
func TestSilence(t *testing.T) {
	var s silence
	for after := time.Duration(0); after < silentProbe; after += time.Second {
		s = s.last(t0.Add(after))
		must.True(t, s.until.IsZero())
	}
	s = s.last(t0.Add(silentProbe))
	must.Eq(t, t0.Add(2*silentProbe), s.until)
	s = s.last(t0.Add(2 * silentProbe))
	must.Eq(t, t0.Add(3*silentProbe), s.until)
}
