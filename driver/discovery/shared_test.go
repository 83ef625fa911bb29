// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/shoenig/test/must"
)

// counted counts the watches of a registry.
type counted struct {
	*Static
	watches atomic.Int32
}

func (c *counted) Watch(ctx context.Context) <-chan View {
	c.watches.Add(1)
	return c.Static.Watch(ctx)
}

func TestShare(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &counted{Static: NewStatic(Peer{AllocID: "a"})}
	s := Share(ctx, r)
	size := func(views <-chan View, n int) {
		t.Helper()
		for v := range views {
			if len(v.Peers) == n {
				return
			}
		}
		t.Fatalf("the watch ended without a view of %d peers", n)
	}

	must.Eq(t, View{}, (&Shared{}).Latest())
	first := s.Watch(ctx)
	size(first, 1)
	r.Add(Peer{AllocID: "b"})
	size(first, 2)

	// Who comes later sees at once what the others have seen.
	shortly, leave := context.WithCancel(ctx)
	late := s.Watch(shortly)
	size(late, 2)
	leave()
	for range late { // it ends by itself
	}

	r.Remove("a")
	size(first, 1)
	must.Eq(t, 1, r.watches.Load())
	must.Len(t, 1, s.Latest().Peers)
	must.Len(t, 1, s.Read(ctx).Peers)

	cancel()
	for range first { // it ends with what it shares
	}
}
