// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registrytest

import (
	"context"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

func TestStatic(t *testing.T) {
	s := NewStatic(registry.Peer{AllocID: "b"}, registry.Peer{AllocID: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	views := s.Watch(ctx)
	v := <-views
	must.Eq(t, []registry.Peer{{AllocID: "a", Registered: 2}, {AllocID: "b", Registered: 1}}, v.Peers)
	s.Remove("b")
	v = <-views
	must.Len(t, 1, v.Peers)
	must.Eq(t, v.Peers, s.Read(ctx).Peers)
	s.Add(registry.Peer{AllocID: "a"})
	v = <-views
	must.Eq(t, 4, v.Peers[0].Registered)
	cancel()
	for range views { // closed
	}
}
