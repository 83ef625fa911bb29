// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// field is a value, the place where it was written, and whether it was set.
type field[T any] struct {
	value T
	set   bool
	where string
}

func (f field[T]) or(v T) T {
	if f.set {
		return f.value
	}
	return v
}

// block is a decoded kolo block. All keys apply to the job, not to the group.
type block struct {
	where string

	min, max, preferred, step   field[float64]
	spare                       field[float64]
	weight, priority, totalWork field[float64]
	queue, kind, deadline       field[string]
	locality, level             field[string]
	preemptible, powers         field[bool]
	sizes                       field[[]int]
	gang                        field[[]string]
	ratio                       field[string]
}

// keys maps each key of the block to its decoder. Blocks are read in alphabetical
// order of their keys, so the order of this map does not matter.
var keys = map[string]key{
	"min":           define(func(b *block) *field[float64] { return &b.min }, whole),
	"max":           define(func(b *block) *field[float64] { return &b.max }, whole),
	"preferred":     define(func(b *block) *field[float64] { return &b.preferred }, whole),
	"step":          define(func(b *block) *field[float64] { return &b.step }, whole),
	"spare":         define(func(b *block) *field[float64] { return &b.spare }, amount),
	"weight":        define(func(b *block) *field[float64] { return &b.weight }, positive(minWeight, maxWeight)),
	"priority":      define(func(b *block) *field[float64] { return &b.priority }, priority),
	"total_work":    define(func(b *block) *field[float64] { return &b.totalWork }, positive(leastWork, maxWork)),
	"queue":         define(func(b *block) *field[string] { return &b.queue }, text),
	"kind":          define(func(b *block) *field[string] { return &b.kind }, text),
	"deadline":      define(func(b *block) *field[string] { return &b.deadline }, text),
	"locality":      define(func(b *block) *field[string] { return &b.locality }, locality),
	"level":         define(func(b *block) *field[string] { return &b.level }, text),
	"preemptible":   define(func(b *block) *field[bool] { return &b.preemptible }, truth),
	"powers_of_two": define(func(b *block) *field[bool] { return &b.powers }, truth),
	"sizes":         define(func(b *block) *field[[]int] { return &b.sizes }, wholes),
	"gang":          define(func(b *block) *field[[]string] { return &b.gang }, names),
	"ratio":         define(func(b *block) *field[string] { return &b.ratio }, text),
}

// key describes how to read the value of a key, and how to merge it with the value
// in another group.
type key struct {
	read func(b *block, where string, v any) problem.List
	join func(mine, other *block) problem.List
}

func define[T any](of func(*block) *field[T], read func(*field[T], string, any) problem.List) key {
	return key{
		read: func(b *block, where string, v any) problem.List { return read(of(b), where, v) },
		join: func(mine, other *block) problem.List { return of(mine).join(of(other)) },
	}
}

// decode reads the value of policy.kolo. Nomad passes HCL blocks as a list of maps;
// a job in JSON may contain the map itself.
func decode(where string, raw any) (block, problem.List) {
	b := block{where: where}
	list := []any{raw}
	switch v := raw.(type) {
	case nil:
		return b, nil
	case []any:
		list = v
	case []map[string]any:
		list = make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
	}
	if len(list) > 1 {
		return b, wrong(where, fmt.Sprintf("there are %d kolo blocks", len(list)), "keep one")
	}
	if len(list) == 0 {
		return b, nil
	}
	m, ok := list[0].(map[string]any)
	if !ok {
		return b, wrong(where, describe(list[0])+" is not a block", "write kolo { }")
	}
	var problems problem.List
	for _, key := range slices.Sorted(maps.Keys(m)) {
		k, known := keys[key]
		at := where + "." + key
		if !known {
			problems.Add(at, nil, "there is no such key", meant(key))
			continue
		}
		problems = append(problems, k.read(&b, at, m[key])...)
	}
	return b, problems
}

// merge adopts the keys of another group's block. All keys apply to the job, so
// groups may repeat a key only with the same value.
func (b *block) merge(o block) problem.List {
	if b.where == "" {
		b.where = o.where
	}
	var ps problem.List
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		ps = append(ps, keys[name].join(b, &o)...)
	}
	return ps
}

func (f *field[T]) join(other *field[T]) problem.List {
	switch {
	case !other.set:
	case !f.set:
		*f = *other
	case !reflect.DeepEqual(f.value, other.value):
		return wrong(other.where, fmt.Sprintf("%v contradicts %s = %v", other.value, f.where, f.value),
			"write it in one group only: it applies to the whole job")
	}
	return nil
}

// wrong returns a list with one problem.
func wrong(where, text, remedy string) problem.List {
	return problem.List{problem.New(where, nil, text, remedy)}
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

func whole(f *field[float64], where string, v any) problem.List {
	n, ok := number(v)
	if !ok || n != math.Trunc(n) || !(math.Abs(n) <= MaxWorkers) {
		return wrong(where, fmt.Sprintf("%s is not a whole number of at most %d", describe(v), MaxWorkers), "write a number such as 2")
	}
	if n < 1 {
		return wrong(where, fmt.Sprintf("%v is below 1", n), "write at least 1")
	}
	*f = field[float64]{n, true, where}
	return nil
}

// amount reads a whole number that may be 0.
func amount(f *field[float64], where string, v any) problem.List {
	if n, ok := number(v); ok && n == 0 {
		*f = field[float64]{0, true, where}
		return nil
	}
	return whole(f, where, v)
}

// positive returns a reader of positive numbers from low to high.
func positive(low, high float64) func(*field[float64], string, any) problem.List {
	return func(f *field[float64], where string, v any) problem.List {
		n, ok := number(v)
		switch {
		case !ok:
			return wrong(where, describe(v)+" is not a number", "write a number above 0")
		case n <= 0:
			return wrong(where, fmt.Sprintf("%v is not above 0", n), "write a number above 0")
		case !(n >= low && n <= high):
			return wrong(where, fmt.Sprintf("%v is not from %v to %v", n, low, high), "write a number within")
		}
		*f = field[float64]{n, true, where}
		return nil
	}
}

func priority(f *field[float64], where string, v any) problem.List {
	if p := whole(f, where, v); p != nil {
		return p
	}
	if f.value > 100 {
		return wrong(where, fmt.Sprintf("%v is above 100", f.value), "write 1 to 100, as for a job's priority in Nomad")
	}
	return nil
}

func text(f *field[string], where string, v any) problem.List {
	s, ok := v.(string)
	if !ok {
		return wrong(where, describe(v)+" is not a text", "write it in quotes")
	}
	if s == "" {
		return wrong(where, "it is empty", "leave it out")
	}
	if len(s) > maxName {
		return wrong(where, fmt.Sprintf("it has %d bytes", len(s)), fmt.Sprintf("write at most %d bytes", maxName))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return wrong(where, fmt.Sprintf("%q holds control characters", s), "write letters, digits and punctuation")
	}
	*f = field[string]{s, true, where}
	return nil
}

func locality(f *field[string], where string, v any) problem.List {
	if p := text(f, where, v); p != nil {
		return p
	}
	if !slices.Contains(localities, Locality(f.value)) {
		return wrong(where, fmt.Sprintf("there is no locality %q", short(f.value)), "write none, prefer or require")
	}
	return nil
}

func truth(f *field[bool], where string, v any) problem.List {
	b, ok := v.(bool)
	if !ok {
		return wrong(where, describe(v)+" is not true or false", "write true or false without quotes")
	}
	*f = field[bool]{b, true, where}
	return nil
}

func wholes(f *field[[]int], where string, v any) problem.List {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return wrong(where, describe(v)+" is not a list of sizes", "write a list such as sizes = [2, 4, 8]")
	}
	if len(list) > maxSizes {
		return wrong(where, fmt.Sprintf("it lists %d sizes", len(list)), fmt.Sprintf("write at most %d, or a step", maxSizes))
	}
	var out []int
	for i, e := range list {
		var n field[float64]
		if p := whole(&n, fmt.Sprintf("%s[%d]", where, i), e); p != nil {
			return p
		}
		out = append(out, int(n.value))
	}
	*f = field[[]int]{out, true, where}
	return nil
}

func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "nothing"
	case string:
		return fmt.Sprintf("the text %q", short(x))
	case bool:
		return strconv.FormatBool(x)
	case []any, []map[string]any:
		return "a list"
	case map[string]any:
		return "a block"
	}
	return short(fmt.Sprint(v))
}

// short returns the beginning of a text that may be long.
func short(s string) string {
	const enough = 64
	if len(s) <= enough {
		return s
	}
	return s[:enough] + "…"
}

// meant returns a hint that names the key the user probably meant.
func meant(key string) string {
	if key == "suspendable" {
		return "it is called preemptible now"
	}
	all := slices.Sorted(maps.Keys(keys))
	if near := suggest.Word(key, all); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return fmt.Sprintf("the keys are %v", all)
}
