// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
)

// timeout bounds tests that would hang if something is broken. It is no
// statement about speed.
const timeout = 2 * time.Minute

func withTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// Simulated processes build all their meshes over HTTP and read each other's
// blobs, for any shape of the ring.
func TestRing_Shapes(t *testing.T) {
	cases := map[string]struct {
		perHost []int
		lead    int
		set     string
	}{
		"alone":                         {[]int{1}, 0, "5e7"},
		"alone, old Horovod":            {[]int{1}, 0, ""},
		"one host":                      {[]int{4}, 0, "5e7"},
		"one host, led by its last":     {[]int{4}, 3, "5e7"},
		"one slot per host":             {[]int{1, 1, 1}, 0, "5e7"},
		"two hosts":                     {[]int{2, 2}, 0, "5e7"},
		"two hosts, led by slots 1":     {[]int{2, 2}, 1, "5e7"},
		"two hosts, old Horovod":        {[]int{2, 2}, 0, ""},
		"two hosts, led, old Horovod":   {[]int{2, 2}, 1, ""},
		"unequal hosts":                 {[]int{3, 1, 2}, 0, "5e7"},
		"unequal hosts, led by slots 1": {[]int{4, 2, 3}, 1, "5e7"},
		"unequal hosts, biggest last":   {[]int{1, 4}, 0, "5e7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring, err := ringsim.Start(ringsim.Led(tc.lead, tc.perHost...), ringsim.AnyPeer{})
			must.NoError(t, err)
			defer ring.Close()
			must.NoError(t, ring.Initialize(withTimeout(t), tc.set, name))
		})
	}
}

// The requests of the processes grow with the square of the ring. The leader's
// messages grow with hosts times meshes that cross hosts.
func TestRing_LeaderMessages(t *testing.T) {
	const slots = 4
	for _, hosts := range []int{1, 2, 4, 8} {
		t.Run(strconv.Itoa(hosts)+" hosts", func(t *testing.T) {
			perHost := slices.Repeat([]int{slots}, hosts)
			ring, err := ringsim.Start(ringsim.Slots(perHost...), ringsim.AnyPeer{})
			must.NoError(t, err)
			defer ring.Close()
			must.NoError(t, ring.Initialize(withTimeout(t), "5e7", "seed"))

			// Held requests are never asked for twice, so this is exact.
			ranks := hosts * slots
			requests := 2 * (meshRequests(ranks) + hosts*meshRequests(slots) + slots*meshRequests(hosts))
			must.Eq(t, int64(requests), ring.Requests.Load())

			crossing := 2 * (1 + slots) // global and cross_0..3, twice
			most := 2 * hosts * crossing
			if hosts == 1 {
				most = 0
			}
			must.LessEq(t, int64(most), ring.Messages.Load())
			must.Eq(t, hosts > 1, ring.Messages.Load() > 0)
			t.Logf("%d requests, %d messages of at most %d, %d bytes", requests, ring.Messages.Load(), most, ring.Bytes.Load())
		})
	}
}

// meshRequests returns the number of requests that all members of a mesh of that
// size send together.
func meshRequests(size int) int {
	return 3*size + size*(size-1)/2 + 2*size*(size-1)
}
