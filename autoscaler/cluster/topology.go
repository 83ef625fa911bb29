// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// Topology is the topology of a node pool. Its node numbers are indexes of
// View.Nodes; bins are numbered within their node.
type Topology struct {
	*topology.Tree
	// Unread is how many nodes have values that were not read yet. Until then, they
	// count as nodes without a value.
	Unread int
}

// treeCache holds the topologies of one generation of nodes.
type treeCache struct {
	gen   uint64
	trees map[string]*Topology // by node pool
	paths map[string]string    // of nodes whose values are known, by id
	unset map[levelOf]bool     // levels already reported as unset
}

// topologies builds the topologies of all pools that have nodes, unless those of
// the last round are still valid. The numbers of nodes remain valid while no node
// changes.
func (b *viewBuilder) topologies(cache *treeCache) {
	if cache.gen != b.store.nodesGen || cache.trees == nil {
		old, reported := cache.paths, cache.unset
		*cache = treeCache{gen: b.store.nodesGen, trees: map[string]*Topology{}, paths: map[string]string{}, unset: map[levelOf]bool{}}
		for i := range b.view.Nodes {
			pool := b.view.Nodes[i].Pool
			if cache.trees[pool] == nil {
				cache.trees[pool] = b.topology(pool, cache.paths)
			}
		}
		for pool, t := range cache.trees {
			if t.Unread > 0 {
				continue // the values are on their way
			}
			for _, name := range t.Unset() {
				l := levelOf{pool, name}
				if cache.unset[l] = true; !reported[l] {
					b.unset = append(b.unset, l)
				}
			}
		}
		for id, path := range cache.paths {
			if before, ok := old[id]; ok && before != path {
				b.moved = append(b.moved, movedNode{b.store.nodes[id].Name, before, path})
			}
		}
	}
	b.view.Topologies = cache.trees
}

// levelOf is a level of a pool.
type levelOf struct{ pool, name string }

// movedNode is a node whose position in its pool's topology has changed.
type movedNode struct{ name, from, to string }

// topology builds the topology of a pool and adds its nodes' paths to paths.
func (b *viewBuilder) topology(pool string, paths map[string]string) *Topology {
	levels := b.pools(pool).Levels
	if len(levels) == 0 {
		levels = topology.Default()
	}
	detail := slices.ContainsFunc(levels, ofDetail)
	out := &Topology{}
	nodes := make([]topology.Node, len(b.view.Nodes))
	for i := range b.view.Nodes {
		if b.view.Nodes[i].Pool != pool {
			nodes[i].Outside = true
			continue
		}
		n := b.store.nodes[b.view.Nodes[i].ID]
		if detail && (!n.detailed || n.detailAt < n.ModifyIndex) {
			b.undetailed = append(b.undetailed, n.ID)
		}
		nodes[i] = b.located(i, n, levels)
		if detail && !n.detailed {
			out.Unread++
		} else {
			paths[n.ID] = strings.Join(nodes[i].Values, "/")
		}
	}
	out.Tree = topology.New(levels, nodes)
	return out
}

// ofDetail reports whether node lists lack the values of a level.
func ofDetail(l topology.Level) bool { return l.Source == topology.Meta || l.Source == topology.Attr }

// located returns a node with its value at each level.
func (b *viewBuilder) located(i int, n *node, levels []topology.Level) topology.Node {
	var out topology.Node
	device := ""
	for _, l := range levels {
		switch l.Source {
		case topology.Meta:
			out.Values = append(out.Values, short(n.Meta[l.Key]))
		case topology.Attr:
			out.Values = append(out.Values, short(n.Attributes[l.Key]))
		case topology.Fact:
			out.Values = append(out.Values, map[string]string{"datacenter": n.Datacenter, "class": n.NodeClass}[l.Key])
		case topology.Self:
			out.Values = append(out.Values, n.Name)
		case topology.Device:
			device = l.Key
		}
	}
	for _, bin := range b.view.Nodes[i].Bins {
		tb := topology.Bin{Link: topology.Unknown}
		for _, g := range n.groups {
			if g.id == bin.Type {
				tb = topology.Bin{Value: g.within[device], Link: g.link}
			}
		}
		out.Bins = append(out.Bins, tb)
	}
	return out
}

// short returns a value, or "" if the value is too long: it becomes part of the
// name of a domain.
func short(v string) string {
	if len(v) > topology.LongestValue {
		return ""
	}
	return v
}

// wireAttribute is an attribute of a device group.
type wireAttribute struct {
	String *string
	Int    *int64
}

// deviceLevels lists the device plugin's attributes that a topology uses.
var deviceLevels = []string{"island", "numa_node", "pcie_root", "pcie_switch"}

const linkMatrix = "topology"

// locate sets the position of a group's devices. An attribute that lists several
// values counts as unset: it is unknown which of them a worker gets.
func (g *deviceGroup) locate(attributes map[string]wireAttribute, word func(string) string) {
	g.link = topology.Unknown
	if a := attributes[linkMatrix]; a.String != nil {
		g.link = topology.SlowestLink(*a.String)
	}
	for _, key := range deviceLevels {
		v := ""
		switch a := attributes[key]; {
		case a.String != nil:
			v = short(*a.String)
		case a.Int != nil:
			v = strconv.FormatInt(*a.Int, 10)
		}
		if v == "" || strings.Contains(v, ",") {
			continue
		}
		if g.within == nil {
			g.within = map[string]string{}
		}
		g.within[key] = word(v)
	}
}
