// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"path"
	"regexp"
	"regexp/syntax"
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

// programLimit is how many instructions the expressions of a group may compile to
// together: each byte of a node's value may cost as many steps, and ".{0,999}" is
// a thousand.
const programLimit = 128

// targetLimit is the length of the longest side of a constraint that is judged
// here, also once it is resolved: a job writes either side as it likes.
const targetLimit = 512

// termsLimit is how many constraints of a group, and datacenters, are judged here.
const termsLimit = 64

// joined is the constraint as it stands in a key. One that holds a separator
// of keys is not judged here.
func joined(c *api.Constraint) (term string, ok bool) {
	for _, s := range []string{c.LTarget, c.Operand, c.RTarget} {
		if len(s) > targetLimit || strings.ContainsAny(s, fieldSeparator+termSeparator) {
			return "", false
		}
	}
	return strings.Join([]string{c.LTarget, c.Operand, c.RTarget}, fieldSeparator), true
}

// prepared are the constraints of a key that are judged here.
func (k classKey) prepared() []constraint {
	var out []constraint
	budget := programLimit
	for term := range strings.SplitSeq(k.constraints, termSeparator) {
		f := strings.Split(term, fieldSeparator)
		if len(f) != 3 {
			continue // of a key without constraints
		}
		c := constraint{left: f[0], operand: f[1], right: f[2]}
		if c.operand == api.ConstraintRegex {
			if len(c.right) > patternLimit || strings.HasPrefix(c.right, "${") || !strings.HasPrefix(c.left, "${") {
				continue
			}
			var cost int
			if c.pattern, cost = cheap(c.right, budget); c.pattern == nil {
				continue
			}
			budget -= cost
		}
		out = append(out, c)
	}
	return out
}

// cheap compiles a regular expression of at most so many instructions; it returns
// nil for what is none, or costs more.
func cheap(pattern string, budget int) (re *regexp.Regexp, cost int) {
	tree, err := syntax.Parse(pattern, syntax.Perl) // does not unroll repetitions yet
	if err != nil {
		return nil, 0
	}
	if cost = instructions(tree); cost > budget {
		return nil, 0
	}
	if re, err = regexp.Compile(pattern); err != nil {
		return nil, 0
	}
	return re, cost
}

// instructions is about how many a part of an expression compiles to.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
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
		if !leftKnown || !rightKnown || len(left.value) > targetLimit || len(right.value) > targetLimit {
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
		have := set(l.value)
		return l.set && !slices.ContainsFunc(elements(r.value), func(e string) bool { return !have[e] })
	case api.ConstraintSetContainsAny:
		have := set(l.value)
		return l.set && slices.ContainsFunc(elements(r.value), func(e string) bool { return have[e] })
	}
	return true // version, semver, distinct_property: left to Nomad
}

func set(s string) map[string]bool {
	out := map[string]bool{}
	for _, e := range elements(s) {
		out[e] = true
	}
	return out
}

func elements(s string) []string {
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
