// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// genCards draws machines of up to eight GPUs of two models, some joined in
// pairs, some cut into instances.
func genCards(rt *rapid.T) *machine {
	m := &machine{pairs: map[[2]string]topology.Pair{}}
	n := rapid.IntRange(0, 8).Draw(rt, "gpus")
	for i := range n {
		c := &card{}
		c.facts = nvml.Facts{
			UUID: fmt.Sprintf("GPU-%d", i),
			Name: rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "model"),
			Bus:  fmt.Sprintf("0000:%02x:00.0", i+1),
			NUMA: rapid.IntRange(-1, 1).Draw(rt, "numa"),
			Root: rapid.SampledFrom([]string{"", "pci0000:00", "pci0000:80"}).Draw(rt, "root"),
		}
		if rapid.IntRange(0, 4).Draw(rt, "mig") == 0 {
			c.facts.MIG = true
			for k := range rapid.IntRange(0, 3).Draw(rt, "instances") {
				c.facts.Instances = append(c.facts.Instances, nvml.Instance{
					UUID: fmt.Sprintf("MIG-%d-%d", i, k), Name: c.facts.Name + " MIG 1g", Profile: "1g",
				})
			}
		}
		m.cards = append(m.cards, c)
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			if rapid.IntRange(0, 4).Draw(rt, "joined") == 0 {
				a, b := &m.cards[i].facts, &m.cards[j].facts
				a.Ports = append(a.Ports, topology.Port{Remote: b.Bus, MBps: 25000})
				b.Ports = append(b.Ports, topology.Port{Remote: a.Bus, MBps: 25000})
			}
		}
	}
	return m
}

// However GPUs are joined and grouped: every unit is in one group, a group is of
// one model and one place, and its attributes say what its devices do.
func TestLayoutProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := genCards(rt)
		by := rapid.SampledFrom(groupings).Draw(rt, "group_by")
		l := newLayout(m, by, &places{numbers: newNumbers("")})
		health := map[string]condition{}
		for _, u := range l.units {
			health[u.id()] = condition{ok: rapid.Bool().Draw(rt, "ok")}
		}
		groups := l.groups(m, health)
		seen := map[string]bool{}
		islands := map[string]bool{}
		for _, g := range groups {
			must.NoError(rt, g.Validate())
			healthy := 0
			place := map[any]bool{}
			product := map[string]bool{}
			for _, d := range g.Devices {
				must.False(rt, seen[d.ID], must.Sprintf("%s is in two groups", d.ID))
				seen[d.ID] = true
				if d.Healthy {
					healthy++
				}
				i := slices.IndexFunc(l.units, func(u unit) bool { return u.id() == d.ID })
				product[l.units[i].product()] = true
				islands[l.islandName(i)] = true
				switch by {
				case GroupByNVLink:
					place[l.islandName(i)] = true
				case GroupByNUMA:
					place[l.units[i].card.facts.NUMA] = true
				case GroupByPCIe:
					place[pciePlace(l.units[i])] = true
				default:
					place[""] = true
				}
			}
			must.MapLen(rt, 1, product)
			must.MapLen(rt, 1, place)
			must.Eq(rt, int64(healthy), *g.Attributes[attrHealthy].Int)
			matrix, err := topology.Parse(*g.Attributes[attrTopology].String)
			must.NoError(rt, err)
			must.Eq(rt, len(g.Devices), matrix.Len())
		}
		must.MapLen(rt, len(l.units), seen)
		must.Eq(rt, len(islands), l.islands)
		for _, g := range groups {
			must.Eq(rt, int64(l.islands), *g.Attributes[attrIslands].Int)
		}
	})
}
