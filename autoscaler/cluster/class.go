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

// classCache holds the classes of one generation of nodes.
type classCache struct {
	gen     uint64
	classes map[classKey]*planner.Class
}

// constraint is one constraint of a class, prepared for many nodes.
type constraint struct {
	left, operand, right string
	pattern              *regexp.Regexp // where the right side is a regular expression, nil for none
}

// patternLimit is the length of the longest regular expression that is judged
// here: a job writes it, and longer ones can take long to compile.
const patternLimit = 512

// joined is the constraint as it stands in a key. One that holds a separator
// of keys is not judged here.
func joined(c *api.Constraint) (term string, ok bool) {
	for _, s := range []string{c.LTarget, c.Operand, c.RTarget} {
		if strings.ContainsAny(s, fieldSeparator+termSeparator) {
			return "", false
		}
	}
	return strings.Join([]string{c.LTarget, c.Operand, c.RTarget}, fieldSeparator), true
}

// prepared are the constraints of a key that are judged here.
func (k classKey) prepared() []constraint {
	var out []constraint
	for term := range strings.SplitSeq(k.constraints, termSeparator) {
		f := strings.Split(term, fieldSeparator)
		if len(f) != 3 {
			continue // of a key without constraints
		}
		c := constraint{left: f[0], operand: f[1], right: f[2]}
		if c.operand == api.ConstraintRegex {
			if len(c.right) > patternLimit || strings.HasPrefix(c.right, "${") {
				continue
			}
			var err error
			if c.pattern, err = regexp.Compile(c.right); err != nil {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// feasible says whether a group of the class could run on the node, free room
// aside; all are the key's prepared constraints. Constraints that cannot be
// judged from here count as met: then Nomad finds no place, and the planner
// takes the workers back.
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
		if !leftKnown || !rightKnown {
			continue
		}
		met := left.set && c.pattern != nil && c.pattern.MatchString(left.value)
		if c.pattern == nil {
			met = holds(left, c.operand, right)
		}
		if !met {
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

// holds evaluates a constraint as Nomad's scheduler does, but for regular
// expressions, which are prepared.
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
