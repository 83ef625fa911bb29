// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// names maps the last two digits of the ids to the names of the groups, without
// the product.
func (r *rig) names() map[string]string {
	all := map[string]string{}
	for _, g := range r.groups() {
		for _, d := range g.Devices {
			all[d.ID[len(d.ID)-2:]] = g.Name[strings.LastIndexByte(g.Name, ' ')+1:]
		}
	}
	return all
}

// settled lets the grace time pass.
func (r *rig) settled() {
	for range 4 {
		r.pass(5 * time.Second)
	}
}

// A task's GPUs are known by the name of their group. So it never changes while
// they may be in use, whatever happens to others.
func TestGroupsKeepTheirNames(t *testing.T) {
	byNVLink := func(c *Config) { c.GroupBy = GroupByNVLink }
	t.Run("when links go down", func(t *testing.T) {
		r := newRig(t, "two-boards-a100", byNVLink)
		before := r.names()
		r.hw.Set(0, "nolinks", "0")
		r.m.refresh(r.now)
		r.settled()
		must.Eq(t, before, r.names())
		// What cannot be promised of it any more is not offered.
		must.Eq(t, map[string]string{r.hw.UUIDs()[0]: "its NVLinks to the rest of nvlink0 are down"}, r.sick())
		must.Eq(t, "4", attribute(t, r.groups()[1], "island_size"))
		must.Eq(t, "3", attribute(t, r.groups()[0], "island_size"))
		must.Eq(t, "12", attribute(t, r.groups()[0], "nvlink_links"))
	})
	t.Run("when a GPU is cut by MIG", func(t *testing.T) {
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
		must.MapEmpty(t, r.sick())
	})
	for _, by := range []GroupBy{GroupByNVLink, GroupByPCIe} {
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
	t.Run("when the plugin starts anew", func(t *testing.T) {
		r := newRig(t, "two-boards-a100", byNVLink)
		before := r.names()
		r.hw.Set(0, "nolinks", "0")
		r.restart()
		must.Eq(t, before, r.names())
	})
}

// restart is another process of the plugin on the same machine.
func (r *rig) restart() {
	r.m.disconnect(nil)
	log := hclog.NewNullLogger()
	m := newMonitor(r.m.cfg, r.m.lib, hostHooks{}, readPlaces(r.hw.Root(), log), log)
	m.eventWait = r.m.eventWait
	r.m = m
	r.m.refresh(r.now)
}

// reboot is the same after a new start of the machine.
func (r *rig) reboot() {
	must.NoError(r.t, os.Remove(filepath.Join(r.hw.Root(), placesFile)))
	r.restart()
}

// Islands that grow together, as when the fabric manager starts late, become one
// but for GPUs that a task was given.
func TestIslandsGrowTogether(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = GroupByNVLink })
	for i := range 8 {
		r.hw.Set(i, "nolinks", "0")
	}
	r.reboot()
	must.Eq(t, "nvlink3", r.names()["05"])
	must.True(t, r.m.places.take(r.m.layout.units[3:4], r.m.layout.numbers()))

	for i := range 8 {
		r.hw.Set(i, "nolinks", "12")
	}
	r.restart()
	must.Eq(t, map[string]string{
		"00": "nvlink0", "01": "nvlink0", "02": "nvlink0", "03": "nvlink0",
		"04": "nvlink3", "05": "nvlink3", "06": "nvlink3", "07": "nvlink3",
	}, r.names())
}

func TestPlacesOfAnotherBootAndBrokenOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"this boot":    {`{"boot":"b","islands":{"GPU-x":7},"switches":{},"taken":{}}`, 7},
		"another boot": {`{"boot":"a","islands":{"GPU-x":7},"switches":{},"taken":{}}`, 0},
		"half a file":  {`{"boot":"b","islands":{"GPU-x":`, 0},
		"another file": {`{}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				must.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
				must.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
			}
			write("/proc/sys/kernel/random/boot_id", "b\n")
			write(placesFile, tc.text)
			c := &card{}
			c.facts.UUID = "GPU-x"
			n := readPlaces(root, hclog.NewNullLogger()).add(nil, [][]unit{{{card: c}}})
			must.Eq(t, tc.want, n.Islands["GPU-x"])
			again := readPlaces(root, hclog.NewNullLogger())
			must.Eq(t, n.Islands, again.numbers.Islands)
		})
	}
	t.Run("nowhere to write", func(t *testing.T) {
		p := readPlaces("/proc", hclog.NewNullLogger())
		c := &card{}
		c.facts.UUID = "GPU-x"
		must.Eq(t, 0, p.add(nil, [][]unit{{{card: c}}}).Islands["GPU-x"])
		must.NotEq(t, "", p.said)
	})
}

// A reservation that comes while islands are found to have grown together would
// be of a group that its GPU is leaving.
func TestReserveWhileIslandsChange(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = GroupByNVLink })
	for i := range 8 {
		r.hw.Set(i, "nolinks", "0")
	}
	r.reboot()
	v, _ := r.m.latest()
	for i := range 8 {
		r.hw.Set(i, "nolinks", "12")
	}
	read, err := readMachine(r.m.lib, r.m.machine, nil) // what refresh does before it publishes
	must.NoError(t, err)
	newLayout(&read, GroupByNVLink, r.m.places)
	must.False(t, r.m.places.take(v.layout.units[3:4], v.layout.numbers()))
	must.True(t, r.m.places.take(v.layout.units[3:4], nil), must.Sprint("names of other groups do not change"))
}

// What could not be written at first is written later.
func TestPlacesAreWrittenWhenTheyCanBe(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(root, "run"), nil, 0o644)) // no folder
	p := readPlaces(root, hclog.NewNullLogger())
	c := &card{}
	c.facts.UUID = "GPU-x"
	p.add(nil, [][]unit{{{card: c}}})
	must.NotEq(t, "", p.said)
	must.NoError(t, os.Remove(filepath.Join(root, "run")))
	p.add(nil, [][]unit{{{card: c}}})
	must.MapContainsKey(t, readPlaces(root, hclog.NewNullLogger()).numbers.Islands, "GPU-x")
}

// Whatever happens to the links, and whatever is found or lost: a number once
// given to a GPU that a task has stays, islands that never met have different
// numbers, and nothing is without one.
func TestNumbersProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNumbers("")
		units := make([]unit, 6)
		for i := range units {
			units[i].card = &card{}
			units[i].card.facts.UUID = fmt.Sprint("GPU-", i)
		}
		met := map[[2]string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			before := n.clone()
			parts := make([][]unit, 3)
			for _, u := range units {
				if part := rapid.IntRange(-1, 2).Draw(rt, "part"); part >= 0 {
					parts[part] = append(parts[part], u)
				}
			}
			var islands [][]unit
			for _, part := range parts {
				if len(part) > 0 {
					islands = append(islands, part)
				}
				for _, a := range part {
					for _, b := range part {
						met[[2]string{a.islander(), b.islander()}] = true
					}
				}
			}
			n.add(nil, islands)
			for id := range before.Taken {
				must.Eq(rt, before.Islands[id], n.Islands[id])
			}
			for a, na := range n.Islands {
				for b, nb := range n.Islands {
					must.True(rt, na != nb || n.connected(met, a, b), must.Sprintf("%s and %s", a, b))
				}
			}
			for _, part := range islands {
				for _, u := range part {
					must.MapContainsKey(rt, n.Islands, u.islander())
					if rapid.IntRange(0, 3).Draw(rt, "taken") == 0 {
						n.Taken[u.islander()] = true
					}
				}
			}
			must.False(rt, n.add(nil, islands), must.Sprint("the same again changes something"))
		}
	})
}

// connected tells whether two have met, or others of their number with both.
func (n numbers) connected(met map[[2]string]bool, a, b string) bool {
	reached, todo := map[string]bool{a: true}, []string{a}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		for other := range n.Islands {
			if met[[2]string{at, other}] && !reached[other] {
				reached[other] = true
				todo = append(todo, other)
			}
		}
	}
	return reached[b]
}
