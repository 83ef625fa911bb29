// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// TestView_PoolsThatPack checks that a pool's configuration and the classes of its nodes
// reach the planner, also after a reload.
func TestView_PoolsThatPack(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", `,"NodeClass":"a100"`)
	f.node("n2", "cpu", "")
	see := func() *View {
		v, err := f.View(func(pool string) config.Pool { return f.pools[pool] })
		must.NoError(t, err)
		return v
	}
	v := see()
	must.MapEmpty(t, v.Packed)
	must.Eq(t, "a100", v.Nodes[0].NodeClass)
	must.Eq(t, "", v.Nodes[1].NodeClass)
	f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000, Pack: config.PackNode}
	must.Eq(t, map[string]bool{"cpu": true}, see().Packed)
}
