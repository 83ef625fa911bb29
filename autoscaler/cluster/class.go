// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

const (
	fieldSeparator = "\x1f"
	termSeparator  = "\x1e"
)

// classKey is what decides on which nodes a group may run. Groups with equal
// keys share one planner.Class.
type classKey struct {
	pool, datacenters, device, drivers, constraints string
}

// term is a constraint as a class key has it. ok is false where the job's author
// wrote a separator into it: it would read as other constraints, or as half of
// one. Like any that cannot be judged from here, it is left to Nomad.
func term(c *api.Constraint) (t string, ok bool) {
	if strings.ContainsAny(c.LTarget+c.Operand+c.RTarget, fieldSeparator+termSeparator) {
		return "", false
	}
	return strings.Join([]string{c.LTarget, c.Operand, c.RTarget}, fieldSeparator), true
}

// classCache holds the classes of one generation of nodes.
type classCache struct {
	gen     uint64
	classes map[classKey]*planner.Class
}

// feasible says whether a group of the class could run on the node, free room
// aside. Constraints that cannot be judged from here count as met: then Nomad
// finds no place, and the planner takes the workers back.
func (k classKey) feasible(n *node) bool {
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
	if k.constraints == "" {
		return true
	}
	for term := range strings.SplitSeq(k.constraints, termSeparator) {
		f := strings.Split(term, fieldSeparator)
		left, leftKnown := n.resolve(f[0])
		right, rightKnown := n.resolve(f[2])
		if leftKnown && rightKnown && !holds(left, f[1], right) {
			return false
		}
	}
	return true
}

// target is a resolved side of a constraint; set is false where the node has
// no such attribute.
type target struct {
	value string
	set   bool
}

// resolve interpolates one side of a constraint. known is false for what a
// list does not tell about a node (attributes and metadata, before an event
// or a read brought the whole node).
func (n *node) resolve(s string) (t target, known bool) {
	inner, ok := strings.CutPrefix(s, "${")
	if !ok {
		return target{s, true}, true
	}
	inner = strings.TrimSuffix(inner, "}")
	switch inner {
	case "node.datacenter":
		return target{n.Datacenter, true}, true
	case "node.class":
		return target{n.NodeClass, true}, true
	case "node.pool":
		return target{n.NodePool, true}, true
	case "node.unique.id":
		return target{n.ID, true}, true
	case "node.unique.name":
		return target{n.Name, true}, true
	}
	if key, ok := strings.CutPrefix(inner, "attr."); ok && n.detailed {
		v, set := n.Attributes[key]
		return target{v, set}, true
	}
	if key, ok := strings.CutPrefix(inner, "meta."); ok && n.detailed {
		v, set := n.Meta[key]
		return target{v, set}, true
	}
	return target{}, false
}

// holds evaluates a constraint as Nomad's scheduler does.
func holds(l target, operand string, r target) bool {
	switch operand {
	case "", "=", "==", "is":
		return l.set && r.set && l.value == r.value
	case "!=", "not":
		return l.set != r.set || l.value != r.value
	case api.ConstraintAttributeIsSet:
		return l.set
	case api.ConstraintAttributeIsNotSet:
		return !l.set
	case "<", "<=", ">", ">=":
		return l.set && r.set && compare(l.value, operand, r.value)
	case api.ConstraintRegex:
		re, err := regexp.Compile(r.value)
		return err != nil || l.set && re.MatchString(l.value)
	case api.ConstraintSetContains, api.ConstraintSetContainsAll:
		return l.set && !slices.ContainsFunc(set(r.value), func(e string) bool { return !slices.Contains(set(l.value), e) })
	case api.ConstraintSetContainsAny:
		return l.set && slices.ContainsFunc(set(r.value), func(e string) bool { return slices.Contains(set(l.value), e) })
	}
	return true // version, semver, distinct_property: left to Nomad
}

func set(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// compare is numeric where both sides are numbers and lexical otherwise.
func compare(l, operand, r string) bool {
	c := strings.Compare(l, r)
	a, errA := strconv.ParseFloat(l, 64)
	b, errB := strconv.ParseFloat(r, 64)
	if errA == nil && errB == nil {
		switch {
		case a < b:
			c = -1
		case a > b:
			c = 1
		default:
			c = 0
		}
	}
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// needsDetail says whether the class asks for what node lists do not hold.
func (k classKey) needsDetail() bool {
	return strings.Contains(k.constraints, "${attr.") || strings.Contains(k.constraints, "${meta.")
}
