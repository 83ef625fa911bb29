// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/internal/registrytest"
)

// counted counts the watches of a registry.
type counted struct {
	*registrytest.Static
	watches atomic.Int32
}

func (c *counted) Watch(ctx context.Context) <-chan registry.View {
	c.watches.Add(1)
	return c.Static.Watch(ctx)
}

func TestShare(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &counted{Static: registrytest.NewStatic(registry.Peer{AllocID: "a"})}
	s := registry.Share(ctx, r)
	size := func(views <-chan registry.View, n int) {
		t.Helper()
		for v := range views {
			if len(v.Peers) == n {
				return
			}
		}
		t.Fatalf("the watch ended without a view of %d peers", n)
	}

	must.Eq(t, registry.View{}, (&registry.Shared{}).Latest())
	first := s.Watch(ctx)
	size(first, 1)
	r.Add(registry.Peer{AllocID: "b"})
	size(first, 2)

	// A later watcher sees at once what the others have seen.
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
