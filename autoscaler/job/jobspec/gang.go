// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// A gang is a job whose groups are in a fixed ratio, such as parameter servers and workers:
//
//	kolo {
//	  gang  = ["ps", "workers"]
//	  ratio = "1:4"
//	}
//
// All its totals are multiples of the ratio's sum.

// Unit returns the number of workers that start and stop together: the sum of the ratio, or
// 1 if the groups are in no ratio.
func (s *Spec) Unit() int { return max(1, Sum(s.Ratio)) }

// Sum returns the sum of a ratio.
func Sum(ratio []int) (sum int) {
	for _, n := range ratio {
		sum += n
	}
	return sum
}

// gang reads the ratio of the groups, and puts the groups in the order of gang.
func (r *reader) gang() {
	gang, ratio := r.kolo.gang, r.kolo.ratio
	switch {
	case !gang.set && !ratio.set:
		return
	case !ratio.set:
		r.problem(gang.where, "the ratio of its groups is missing", `write ratio = "1:4", one number per group of gang`)
		return
	case !gang.set:
		r.problem(ratio.where, "the groups that it is about are missing", `write gang = ["ps", "workers"], one group per number`)
		return
	}
	if r.kolo.locality.set || r.kolo.level.set {
		r.problem(gang.where, "the workers of a gang are placed by ratio, not by topology", "remove locality and level")
	}
	parts := r.parts(ratio, len(gang.value))
	order := map[string]int{}
	for i, name := range gang.value {
		if _, twice := order[name]; twice {
			r.problem(gang.where, fmt.Sprintf("group %q is listed twice", short(name)), "list each group once")
		}
		order[name] = i
		if !slices.ContainsFunc(r.spec.Groups, func(g Group) bool { return g.Name == name }) {
			r.problem(gang.where, fmt.Sprintf("the job has no group %q with a kolo block", short(name)), "add scaling { policy { kolo {} } } to that group, or correct the name")
		}
	}
	for _, g := range r.spec.Groups {
		i, listed := order[g.Name]
		where := fmt.Sprintf("group %q: scaling", g.Name)
		switch {
		case !listed:
			r.problem(gang.where, fmt.Sprintf("group %q has a kolo block and is not in the gang", g.Name), "add it, with its number in ratio")
		case g.Min > 0:
			r.problem(where+".min", fmt.Sprintf("%d would start the group without the others of its gang", g.Min), "write min = 0")
		case parts != nil && g.Max < parts[i]:
			r.problem(where+".max", fmt.Sprintf("%d is below %d, the group's part of ratio", g.Max, parts[i]), fmt.Sprintf("write at least %d", parts[i]))
		}
	}
	if parts == nil || len(r.problems) > 0 {
		return
	}
	slices.SortFunc(r.spec.Groups, func(a, b Group) int { return order[a.Name] - order[b.Name] })
	r.spec.Ratio = parts
}

// parts returns the numbers of a ratio, which must be as many as there are groups. It
// returns nil if the ratio is invalid.
func (r *reader) parts(ratio field[string], groups int) (out []int) {
	all := strings.Split(ratio.value, ":")
	if len(all) < 2 {
		r.problem(ratio.where, fmt.Sprintf("%q has one number", ratio.value), `write one number per group of gang, such as "1:4"`)
		return nil
	}
	for _, text := range all {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > MaxWorkers {
			r.problem(ratio.where, fmt.Sprintf("%q is not a whole number from 1 to %d", short(text), MaxWorkers), `write a ratio such as "1:4"`)
			return nil
		}
		out = append(out, n)
	}
	if len(out) != groups {
		r.problem(ratio.where, fmt.Sprintf("it has %d numbers, and gang has %d groups", len(out), groups), "write one number per group, in the order of gang")
		return nil
	}
	if sum := Sum(out); sum > MaxWorkers {
		r.problem(ratio.where, fmt.Sprintf("its numbers add up to %d, more than %d workers", sum, MaxWorkers), `write the smallest numbers with this ratio, such as "1:4"`)
		return nil
	}
	return out
}

// most returns the largest total that the groups allow. For a gang, it consists of whole
// units.
func (s *Spec) most() int {
	sum, units := 0, MaxWorkers
	for g := range s.Groups {
		sum += s.Groups[g].Max
		if s.Ratio != nil {
			units = min(units, s.Groups[g].Max/s.Ratio[g])
		}
	}
	if s.Ratio != nil {
		return units * s.Unit()
	}
	return sum
}

// inUnits checks that the totals of a gang are whole units. It returns the allowed totals.
func (r *reader) inUnits() sizes.Set {
	s, b := &r.spec, &r.kolo
	unit := s.Unit()
	check := func(where string, n int) {
		if n%unit != 0 {
			r.problem(where, fmt.Sprintf("%d is no multiple of %d, the sum of ratio", n, unit), fmt.Sprintf("totals count the workers of all groups: write %d", n-n%unit+unit))
		}
	}
	for _, f := range []field[float64]{b.min, b.max, b.preferred, b.step} {
		if f.set {
			check(f.where, int(f.value))
		}
	}
	for _, n := range b.sizes.value {
		check(b.sizes.where, n)
	}
	switch {
	case b.powers.value:
		var list []int
		for n := 1; n*unit <= s.Max; n *= 2 {
			if n*unit >= s.Min {
				list = append(list, n*unit)
			}
		}
		return sizes.List(list...)
	case b.sizes.set:
		return sizes.List(b.sizes.value...)
	}
	return sizes.Every(s.Min, max(unit, int(b.step.value)))
}

// names reads a list of names.
func names(f *field[[]string], where string, v any) problem.List {
	list, ok := v.([]any)
	if !ok || len(list) < 2 {
		return wrong(where, describe(v)+" is not a list of at least two groups", `write a list such as gang = ["ps", "workers"]`)
	}
	if len(list) > maxGroups {
		return wrong(where, fmt.Sprintf("it lists %d groups", len(list)), fmt.Sprintf("write at most %d", maxGroups))
	}
	var out []string
	for i, e := range list {
		var name field[string]
		if p := text(&name, fmt.Sprintf("%s[%d]", where, i), e); p != nil {
			return p
		}
		out = append(out, name.value)
	}
	*f = field[[]string]{out, true, where}
	return nil
}
