// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

const (
	fieldSeparator = "\x1f"
	termSeparator  = "\x1e"
)

// classKey holds everything that decides on which nodes a group may run. Groups
// with equal keys share one planner.Class.
type classKey struct {
	pool, datacenters, device, drivers, constraints string
}

// classCache holds the classes of one generation of nodes.
type classCache struct {
	gen     uint64
	classes map[classKey]*planner.Class
}

// targetLimit is the longest side of a constraint, before or after interpolation,
// that is evaluated here: both sides are the job author's text.
const targetLimit = 512

// termsLimit bounds the constraints of a group, and its datacenters, that are
// evaluated here.
const termsLimit = 64

// joined returns the constraint as it appears in a key. A constraint that contains
// a separator of keys is not evaluated here.
func joined(c *api.Constraint) (term string, ok bool) {
	for _, s := range []string{c.LTarget, c.Operand, c.RTarget} {
		if len(s) > targetLimit || strings.ContainsAny(s, fieldSeparator+termSeparator) {
			return "", false
		}
	}
	return strings.Join([]string{c.LTarget, c.Operand, c.RTarget}, fieldSeparator), true
}

// feasible reports whether a group of the class could run on the node, regardless
// of free room; all holds the key's prepared constraints. Constraints that cannot
// be evaluated here count as met. If Nomad then finds no place, the planner takes
// the workers back.
func (k classKey) feasible(n *node, all []constraint) bool {
	if n.NodePool != k.pool {
		return false
	}
	if k.datacenters != "" && !slices.ContainsFunc(strings.Split(k.datacenters, termSeparator), func(p string) bool {
		ok, err := path.Match(p, n.Datacenter)
		return ok && err == nil
	}) {
		return false
	}
	for d := range strings.SplitSeq(k.drivers, termSeparator) {
		if info, ok := n.Drivers[d]; d != "" && n.Drivers != nil && (!ok || !info.Detected || !info.Healthy) {
			return false
		}
	}
	for _, c := range all {
		left, leftKnown := n.resolve(c.left)
		right, rightKnown := n.resolve(c.right)
		if !leftKnown || !rightKnown || len(left.value) > targetLimit || len(right.value) > targetLimit {
			continue
		}
		if !c.met(left, right) {
			return false
		}
	}
	return true
}

// needsDetail reports whether the class depends on data that node lists do not
// contain.
func (k classKey) needsDetail() bool {
	return strings.Contains(k.constraints, "${attr.") || strings.Contains(k.constraints, "${meta.")
}

// class returns the places of a class. Workers without a device hold no slot in a pool that
// counts devices, so their places have no bin.
func (b *viewBuilder) class(k classKey) *planner.Class {
	if c, ok := b.cache.classes[k]; ok {
		b.used[k] = c
		return c
	}
	c := &planner.Class{}
	constraints, slotless := k.prepared(), k.device == "" && b.pools(k.pool).CPUSlot == 0
	for i := range b.view.Nodes {
		n := b.store.nodes[b.view.Nodes[i].ID]
		if n.NodePool == k.pool && k.needsDetail() && n.detailAt < n.ModifyIndex || !n.detailed && k.needsDetail() {
			b.undetailed = append(b.undetailed, n.ID)
		}
		if b.view.Nodes[i].State != planner.Ready || !k.feasible(n, constraints) {
			continue
		}
		if slotless {
			c.Places = append(c.Places, placement.Place{Node: i, Bin: -1})
			continue
		}
		for bin := range b.view.Nodes[i].Bins {
			if k.device == "" || matches(b.view.Nodes[i].Bins[bin].Type, k.device) {
				c.Places = append(c.Places, placement.Place{Node: i, Bin: bin})
			}
		}
	}
	b.cache.classes[k], b.used[k] = c, c
	return c
}
