// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
)

// names maps the last two digits of the ids to the names of the groups, without
// the product.
func (r *rig) names() map[string]string {
	all := map[string]string{}
	l := r.view().Layout
	for i, u := range l.Units {
		id, name := u.ID(), l.GroupName(i)
		all[id[len(id)-2:]] = name[strings.LastIndexByte(name, ' ')+1:]
	}
	return all
}

// A task's GPUs are identified by the name of their group. So the name never changes while
// they may be in use, no matter what happens to other GPUs.
func TestGroupsKeepTheirNames(t *testing.T) {
	byNVLink := func(c *Config) { c.GroupBy = inventory.GroupByNVLink }
	t.Run("when links go down", func(t *testing.T) {
		r := newRig(t, "two-boards-a100", byNVLink)
		before := r.names()
		r.hw.Set(0, "nolinks", "0")
		r.m.refresh(r.now)
		r.settle()
		must.Eq(t, before, r.names())
		// It is not offered, for its group no longer has what it promises.
		must.Eq(t, map[string]string{r.hw.UUIDs()[0]: "its NVLinks to the rest of nvlink0 are down"}, r.unhealthy())
		l := r.view().Layout
		must.Eq(t, []int{1, 4, 3, 4, 3, 4, 3, 4}, sizes(l))
		must.True(t, l.Isolated(0))
		must.False(t, l.Isolated(1))
	})
	t.Run("when MIG splits a GPU", func(t *testing.T) {
		r := newRig(t, "hgx-h100", byNVLink)
		before := r.names()
		r.hw.Set(0, "mig_mode", "1")
		r.hw.Set(0, "mig", "3g.40gb MIG-aa000000-0000-5000-8000-000000000099 40000 1 0")
		r.m.refresh(r.now)
		after := r.names()
		must.Eq(t, "nvlink1", after["99"])
		delete(after, "99")
		delete(before, "00")
		must.Eq(t, before, after)
		must.MapEmpty(t, r.unhealthy())
	})
	for _, by := range []inventory.GroupBy{inventory.GroupByNVLink, inventory.GroupByPCIe} {
		t.Run("when GPUs are found late, by "+string(by), func(t *testing.T) {
			r := newRig(t, "pcie-l40s", func(c *Config) { c.GroupBy = by })
			r.hw.Lose(0)
			r.hw.Lose(1)
			r.reboot()
			before := r.names()
			must.MapLen(t, 6, before)
			r.hw.Return(0)
			r.hw.Return(1)
			r.reopen()
			after := r.names()
			must.MapLen(t, 8, after)
			for id, name := range before {
				must.Eq(t, name, after[id])
			}
		})
	}
	t.Run("when the plugin restarts", func(t *testing.T) {
		r := newRig(t, "two-boards-a100", byNVLink)
		before := r.names()
		r.hw.Set(0, "nolinks", "0")
		r.restart()
		must.Eq(t, before, r.names())
	})
}

// sizes returns the sizes of the units' islands.
func sizes(l inventory.Layout) []int {
	var all []int
	for i := range l.Units {
		all = append(all, l.IslandSize(i))
	}
	return all
}

// restart is another process of the plugin on the same machine.
func (r *rig) restart() {
	r.m.disconnect(nil)
	r.m = New(r.m.cfg, Options{
		NVML: r.m.lib, StableIDs: inventory.OpenStableIDs(r.hw.Root(), hclog.NewNullLogger()), EventWait: r.m.opts.EventWait,
	}, hclog.NewNullLogger())
	r.m.refresh(r.now)
}

// reboot is a restart after the machine has rebooted.
func (r *rig) reboot() {
	must.NoError(r.t, os.Remove(filepath.Join(r.hw.Root(), "/run/nomad-device-nvtopo/stable-ids.json")))
	r.restart()
}

// Islands that merge, for example when the fabric manager starts late, become one, except
// for GPUs that a task was given.
func TestIslandsMerge(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = inventory.GroupByNVLink })
	for i := range 8 {
		r.hw.Set(i, "nolinks", "0")
	}
	r.reboot()
	must.Eq(t, "nvlink3", r.names()["05"])
	must.True(t, r.m.opts.StableIDs.Reserve(r.m.layout, r.m.layout.Units[3:4]))

	for i := range 8 {
		r.hw.Set(i, "nolinks", "12")
	}
	r.restart()
	must.Eq(t, map[string]string{
		"00": "nvlink0", "01": "nvlink0", "02": "nvlink0", "03": "nvlink0",
		"04": "nvlink3", "05": "nvlink3", "06": "nvlink3", "07": "nvlink3",
	}, r.names())
}

// A reservation that arrives while islands are merging is refused, because its GPU is about
// to leave the reserved group.
func TestReserveWhileIslandsChange(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = inventory.GroupByNVLink })
	for i := range 8 {
		r.hw.Set(i, "nolinks", "0")
	}
	r.reboot()
	l := r.view().Layout
	for i := range 8 {
		r.hw.Set(i, "nolinks", "12")
	}
	inv, err := inventory.Read(r.m.lib, r.m.inventory, nil) // what refresh does before it publishes
	must.NoError(t, err)
	inventory.NewLayout(&inv, inventory.GroupByNVLink, r.m.opts.StableIDs)
	must.False(t, r.m.opts.StableIDs.Reserve(l, l.Units[3:4]))
	l.By = inventory.GroupByNode
	must.True(t, r.m.opts.StableIDs.Reserve(l, l.Units[3:4]), must.Sprint("names of other groups do not change"))
}
