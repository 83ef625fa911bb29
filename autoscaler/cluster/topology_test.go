// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// leaves are the paths of all leaves of a tree, by node and bin.
func leaves(v *View, pool string) []string {
	t := v.Topologies[pool]
	last := len(t.Levels()) - 1
	var out []string
	for i := range v.Nodes {
		for bin := 0; t.Leaf(i, bin) >= 0; bin++ {
			out = append(out, fmt.Sprintf("%s.%d %s", v.Nodes[i].ID, bin, strings.Join(t.Path(last, t.Domain(last, t.Leaf(i, bin))), "/")))
		}
	}
	return out
}

func levelsOf(t *testing.T, names ...string) []topology.Level {
	out, err := topology.ParseLevels(names)
	must.NoError(t, err)
	return out
}

// detail has a node read whole, with this metadata.
func (f *fixture) detail(id, meta string) {
	f.t.Helper()
	f.index++
	n := f.store.nodes[id]
	var w wireNode
	must.NoError(f.t, json.Unmarshal([]byte(fmt.Sprintf(`{"ID":%q,"Name":%q,"NodePool":%q,"Datacenter":"dc1","Status":"ready","SchedulingEligibility":"eligible","ModifyIndex":%d,"Meta":%s,"Attributes":{"zone":"z1"}}`,
		id, n.Name, n.NodePool, f.index, meta)), &w))
	f.store.putNode(&w, true)
}

// asked are the nodes that are to be read whole.
func (f *fixture) asked() int {
	n := 0
	f.details.Range(func(id, _ any) bool {
		f.details.Delete(id)
		n++
		return true
	})
	return n
}

// TestTopology_Unset: a mistyped level is reported once, and again after a reload of the
// configuration.
func TestTopology_Unset(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t)
	f.log = hclog.New(&hclog.LoggerOptions{Output: &log})
	f.pools["gpu"] = config.Pool{Name: "gpu", Levels: levelsOf(t, "meta.rakc")}
	f.node("n1", "gpu", "")
	f.view()
	must.Eq(t, "", log.String(), must.Sprint("its values were not read yet"))
	f.detail("n1", `{"rack":"r1"}`)
	f.view()
	f.node("n2", "gpu", "")
	f.detail("n2", `{"rack":"r1"}`)
	f.view()
	const warning = "no node of the pool has a value of a level of its topology; jobs that must not cross it are not scaled: pool=gpu level=meta.rakc"
	must.Eq(t, 1, strings.Count(log.String(), warning))
	f.ForgetClasses()
	f.view()
	must.Eq(t, 2, strings.Count(log.String(), warning))
	f.detail("n2", `{"rakc":"r1"}`)
	f.view()
	must.Eq(t, 2, strings.Count(log.String(), warning))
}

func TestTopology_OfMetadata(t *testing.T) {
	f := newFixture(t)
	f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000, Levels: levelsOf(t, "node.datacenter", "attr.zone", "meta.rack")}
	f.node("n1", "cpu", "")
	f.node("n2", "cpu", "")
	f.node("n3", "gpu", "")

	v := f.view()
	must.Eq(t, 2, v.Topologies["cpu"].Unread)
	must.Eq(t, 2, f.asked(), must.Sprint("nodes of other pools are not asked for"))
	must.Eq(t, 0, v.Topologies["gpu"].Unread)
	must.Eq(t, []string{"n3.0 n3"}, leaves(v, "gpu"), must.Sprint("a pool without a topology has its nodes"))

	f.detail("n1", `{"rack":" r1 "}`)
	f.detail("n2", `{"rack":"`+strings.Repeat("x", 300)+`"}`)
	v = f.view()
	must.Eq(t, []string{"n1.0 dc1/z1/ r1 /n1", "n2.0 dc1/z1/(no meta.rack)/n2"}, leaves(v, "cpu"))
	must.Eq(t, 0, v.Topologies["cpu"].Unread)
	must.Eq(t, 0, f.asked())
	must.StrContains(t, v.Topologies["cpu"].Problems()[0].What, "1 node in dc1 / z1 without a value of meta.rack (n2)")
	var log bytes.Buffer
	f.log = hclog.New(&hclog.LoggerOptions{Output: &log})
	must.True(t, f.view().Topologies["cpu"] == v.Topologies["cpu"], must.Sprint("nothing has changed"))

	t.Log("a node that changes its rack is elsewhere in the next view")
	f.detail("n1", `{"rack":"r2"}`)
	must.Eq(t, "n1.0 dc1/z1/r2/n1", leaves(f.view(), "cpu")[0])
	must.StrContains(t, log.String(), "a node is at another place in the topology; workers on it stay: node=n1 from=\"dc1/z1/ r1 /n1\" to=dc1/z1/r2/n1")
	must.Eq(t, 1, strings.Count(log.String(), "\n"))

	t.Log("one of which a list shows a change is read again, and stays where it was meanwhile")
	f.node("n1", "cpu", "")
	must.Eq(t, "n1.0 dc1/z1/r2/n1", leaves(f.view(), "cpu")[0])
	must.Eq(t, 1, f.asked())

	t.Log("as it is with other levels, after a reload")
	f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000}
	f.ForgetClasses()
	must.Eq(t, []string{"n1.0 n1", "n2.0 n2"}, leaves(f.view(), "cpu"))
}

// devices is the JSON of a node with one device group per set of attributes.
func devices(attributes ...string) string {
	var groups []string
	for i, a := range attributes {
		groups = append(groups, fmt.Sprintf(`{"Vendor":"nvidia","Type":"gpu","Name":"H100 %d","Attributes":%s,"Instances":[{"ID":"g%d","Healthy":true}]}`, i, a, i))
	}
	return `,"NodeResources":{"Cpu":{"CpuShares":8500},"Memory":{"MemoryMB":1000},"Devices":[` + strings.Join(groups, ",") + `]}`
}

func TestTopology_OfDevices(t *testing.T) {
	f := newFixture(t)
	f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu", Levels: levelsOf(t, "device.island")}
	f.node("n1", "gpu", devices(`{"island":{"String":"nvlink0"},"topology":{"String":"4;6xNV18s"}}`, `{"island":{"String":"nvlink1"},"topology":{"String":"2;SYS"}}`))
	f.node("n2", "gpu", devices(`{"island":{"String":"nvlink0,nvlink1"},"memory":{"Int":81559,"Unit":"MiB"},"topology":{"String":"nonsense"}}`))
	f.node("n3", "gpu", "")

	v := f.view()
	must.Eq(t, []string{"n1.0 n1/nvlink0", "n1.1 n1/nvlink1", "n2.0 n2/(no device.island)", "n3.0 n3/(no device.island)"}, leaves(v, "gpu"))
	must.Len(t, 1, v.Topologies["gpu"].Problems())
	must.Eq(t, 0, f.asked(), must.Sprint("node lists hold devices"))
	tree := v.Topologies["gpu"].Tree
	cost := func(leaf int) int64 { return tree.Score([]topology.Part{{Leaf: leaf, Workers: 2}}).Cost }
	must.Eq(t, []int64{int64(topology.NVLink), int64(topology.SYS), int64(topology.Unknown)}, []int64{cost(0), cost(1), cost(2)})

	f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu", Levels: levelsOf(t, "device.numa_node")}
	f.node("n4", "gpu", devices(`{"numa_node":{"Int":1}}`))
	must.Eq(t, "n4.0 n4/1", leaves(f.view(), "gpu")[4])
}
