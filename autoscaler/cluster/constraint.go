// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/nomad/api"
)

// constraint is one constraint of a class, prepared for many nodes.
type constraint struct {
	left, operand, right string
	// check evaluates the left side if the operand requires a parsed right side; nil
	// for other operands.
	check func(left string) bool
}

// budget bounds what the constraints of a group, which a job's author writes, may
// cost the autoscaler per node. Constraints beyond the budget are left to Nomad.
type budget struct {
	// Instructions of regular expressions. Each byte of a node's value may cost as
	// many steps; ".{0,999}" has a thousand instructions.
	instructions int
	versions     int // number of versions that a node's version is compared with
}

// budgetOfGroup is the budget of all constraints of a group together.
var budgetOfGroup = budget{instructions: 128, versions: 16}

// parsedLimit is the length of the longest right side that is parsed.
const parsedLimit = 512

// prepared returns the constraints of a key that are evaluated here.
func (k classKey) prepared() []constraint {
	var out []constraint
	b := budgetOfGroup
	for term := range strings.SplitSeq(k.constraints, termSeparator) {
		f := strings.Split(term, fieldSeparator)
		if len(f) != 3 {
			continue // a key without constraints
		}
		c := constraint{left: f[0], operand: f[1], right: f[2]}
		if b.prepare(&c) {
			out = append(out, c)
		}
	}
	return out
}

// prepare prepares a constraint for evaluation, and returns false if it is left to
// Nomad.
func (b *budget) prepare(c *constraint) bool {
	var parse func(string) func(string) bool
	switch c.operand {
	case api.ConstraintRegex:
		parse = b.pattern
	case api.ConstraintVersion:
		parse = b.version
	case api.ConstraintSemver:
		parse = b.semver
	default:
		return true
	}
	if len(c.right) > parsedLimit || strings.HasPrefix(c.right, "${") || !strings.HasPrefix(c.left, "${") {
		return false
	}
	c.check = parse(c.right)
	return c.check != nil
}

// pattern compiles a regular expression. It returns nil if the expression is invalid
// or costs too much.
func (b *budget) pattern(right string) func(string) bool {
	tree, err := syntax.Parse(right, syntax.Perl) // does not unroll repetitions yet
	if err != nil {
		return nil
	}
	cost := instructions(tree)
	if cost > b.instructions {
		return nil
	}
	re, err := regexp.Compile(right)
	if err != nil {
		return nil
	}
	b.instructions -= cost
	return re.MatchString
}

// instructions estimates how many instructions a part of an expression compiles to.
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

// version parses constraints such as ">= 1.2, < 2" or "~> 1.4". As in Nomad, a
// pre-release satisfies only constraints that name a pre-release of the same
// version.
func (b *budget) version(right string) func(string) bool {
	if !b.compares(right) {
		return nil
	}
	all, err := version.NewConstraint(right)
	if err != nil {
		return nil
	}
	return func(left string) bool {
		v, err := version.NewVersion(left)
		return err == nil && all.Check(v)
	}
}

// semver parses the same syntax as version, except "~>". A pre-release is ordered
// before its release, as Semantic Versioning 2.0 defines.
func (b *budget) semver(right string) func(string) bool {
	if !b.compares(right) {
		return nil
	}
	type bound struct {
		operand string
		version *version.Version
	}
	var all []bound
	for part := range strings.SplitSeq(right, ",") {
		part = strings.TrimSpace(part)
		number := strings.TrimLeft(part, "<>=!")
		v, err := version.NewSemver(strings.TrimSpace(number))
		operand := strings.TrimSuffix(part, number)
		if err != nil || !slices.Contains([]string{"", "=", "!=", "<", "<=", ">", ">="}, operand) {
			return nil
		}
		all = append(all, bound{operand, v})
	}
	return func(left string) bool {
		v, err := version.NewVersion(left)
		return err == nil && !slices.ContainsFunc(all, func(b bound) bool { return !ordered(v.Compare(b.version), b.operand) })
	}
}

// compares charges the budget for the versions in right, and returns false if it is
// exceeded.
func (b *budget) compares(right string) bool {
	n := strings.Count(right, ",") + 1
	if n > b.versions {
		return false
	}
	b.versions -= n
	return true
}

// target is an interpolated side of a constraint; set is false if the node lacks the
// attribute.
type target struct {
	value string
	set   bool
}

// resolve interpolates one side of a constraint. known is false for attributes and
// metadata of a node that is known only from a list; an event or a read brings them
// later.
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

// met reports whether the constraint holds between its interpolated sides, by the
// rules of Nomad's scheduler.
func (c *constraint) met(l, r target) bool {
	if c.check != nil {
		return l.set && c.check(l.value)
	}
	switch c.operand {
	case "", "=", "==", "is":
		return l.set && r.set && l.value == r.value
	case "!=", "not":
		return l.set != r.set || l.value != r.value
	case api.ConstraintAttributeIsSet:
		return l.set
	case api.ConstraintAttributeIsNotSet:
		return !l.set
	case "<", "<=", ">", ">=":
		return l.set && r.set && ordered(compare(l.value, r.value), c.operand)
	case api.ConstraintSetContains, api.ConstraintSetContainsAll:
		have := set(l.value)
		return l.set && !slices.ContainsFunc(elements(r.value), func(e string) bool { return !have[e] })
	case api.ConstraintSetContainsAny:
		have := set(l.value)
		return l.set && slices.ContainsFunc(elements(r.value), func(e string) bool { return have[e] })
	}
	return true // distinct_hosts, distinct_property: left to Nomad
}

// set returns the elements of a list. A job's author may write both lists of a
// constraint and no length bounds them, so searching one list for each element of
// the other could take minutes.
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

// compare compares numerically if both sides are numbers, and lexically otherwise.
func compare(l, r string) int {
	a, errA := strconv.ParseFloat(l, 64)
	b, errB := strconv.ParseFloat(r, 64)
	if errA == nil && errB == nil {
		return cmp.Compare(a, b)
	}
	return strings.Compare(l, r)
}

// ordered reports whether an operand accepts the result of a comparison.
func ordered(c int, operand string) bool {
	switch operand {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "!=":
		return c != 0
	}
	return c == 0
}
