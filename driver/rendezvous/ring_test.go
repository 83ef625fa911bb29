// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/rendezvous/internal/ringsim"
)

// patience bounds tests that would hang if something is broken. It is no
// statement about speed.
const patience = 2 * time.Minute

func withPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Simulated processes build all their meshes over HTTP and read each other's
// blobs, whatever the shape of the ring.
func TestRing_Shapes(t *testing.T) {
	cases := map[string]struct {
		perHost []int
		set     string
	}{
		"alone":                       {[]int{1}, "5e7"},
		"alone, old Horovod":          {[]int{1}, ""},
		"one host":                    {[]int{4}, "5e7"},
		"one slot per host":           {[]int{1, 1, 1}, "5e7"},
		"two hosts":                   {[]int{2, 2}, "5e7"},
		"two hosts, old Horovod":      {[]int{2, 2}, ""},
		"unequal hosts":               {[]int{3, 1, 2}, "5e7"},
		"unequal hosts, biggest last": {[]int{1, 4}, "5e7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring, err := ringsim.Start(ringsim.Slots(tc.perHost...))
			must.NoError(t, err)
			defer ring.Close()
			must.NoError(t, ring.Initialize(withPatience(t), tc.set, name))
		})
	}
}
