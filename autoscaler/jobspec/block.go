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

	"github.com/kolo-nomad/kolo/autoscaler/suggest"
)

// field is a value with the place it was written at, and whether it was.
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

// block is a decoded kolo block. All keys speak of the job, not of the group.
type block struct {
	where string

	min, max, preferred, step   field[float64]
	weight, priority, totalWork field[float64]
	queue, kind, deadline       field[string]
	preemptible, powers         field[bool]
	sizes                       field[[]int]
}

// keys maps each key of the block to its decoder. The order of a map does not
// matter: decode walks the block's keys in alphabetical order.
var keys = map[string]func(*block, string, any) *Problem{
	"min":           func(b *block, w string, v any) *Problem { return whole(&b.min, w, v) },
	"max":           func(b *block, w string, v any) *Problem { return whole(&b.max, w, v) },
	"preferred":     func(b *block, w string, v any) *Problem { return whole(&b.preferred, w, v) },
	"step":          func(b *block, w string, v any) *Problem { return whole(&b.step, w, v) },
	"weight":        func(b *block, w string, v any) *Problem { return positive(&b.weight, w, v, minWeight, maxWeight) },
	"priority":      func(b *block, w string, v any) *Problem { return priority(&b.priority, w, v) },
	"total_work":    func(b *block, w string, v any) *Problem { return positive(&b.totalWork, w, v, leastWork, maxWork) },
	"queue":         func(b *block, w string, v any) *Problem { return text(&b.queue, w, v) },
	"kind":          func(b *block, w string, v any) *Problem { return text(&b.kind, w, v) },
	"deadline":      func(b *block, w string, v any) *Problem { return text(&b.deadline, w, v) },
	"preemptible":   func(b *block, w string, v any) *Problem { return truth(&b.preemptible, w, v) },
	"powers_of_two": func(b *block, w string, v any) *Problem { return truth(&b.powers, w, v) },
	"sizes":         func(b *block, w string, v any) *Problem { return wholes(&b.sizes, w, v) },
}

// decode reads the value of policy.kolo. Nomad hands HCL blocks over as a
// list of maps; a job in JSON may hold the map itself.
func decode(where string, raw any) (block, Problems) {
	b := block{where: where}
	var m map[string]any
	switch v := raw.(type) {
	case nil:
		return b, nil
	case map[string]any:
		m = v
	case []map[string]any:
		if len(v) > 1 {
			return b, Problems{twice(where, len(v))}
		}
		if len(v) == 1 {
			m = v[0]
		}
	case []any:
		if len(v) > 1 {
			return b, Problems{twice(where, len(v))}
		}
		if len(v) == 1 {
			var ok bool
			if m, ok = v[0].(map[string]any); !ok {
				return b, Problems{{where, describe(v[0]) + " is not a block", "write kolo { }"}}
			}
		}
	default:
		return b, Problems{{where, describe(raw) + " is not a block", "write kolo { }"}}
	}

	var problems Problems
	for _, key := range slices.Sorted(maps.Keys(m)) {
		set, known := keys[key]
		at := where + "." + key
		if !known {
			problems = append(problems, Problem{at, "there is no such key", meant(key)})
			continue
		}
		if p := set(&b, at, m[key]); p != nil {
			problems = append(problems, *p)
		}
	}
	return b, problems
}

func twice(where string, n int) Problem {
	return Problem{where, fmt.Sprintf("there are %d kolo blocks", n), "keep one"}
}

// merge adopts the keys of another group's block. The same key may be
// repeated with the same value, since all keys speak of the job.
func (b *block) merge(o block) Problems {
	if b.where == "" {
		b.where = o.where
	}
	var ps Problems
	join(&b.min, o.min, &ps)
	join(&b.max, o.max, &ps)
	join(&b.preferred, o.preferred, &ps)
	join(&b.step, o.step, &ps)
	join(&b.weight, o.weight, &ps)
	join(&b.priority, o.priority, &ps)
	join(&b.totalWork, o.totalWork, &ps)
	join(&b.queue, o.queue, &ps)
	join(&b.kind, o.kind, &ps)
	join(&b.deadline, o.deadline, &ps)
	join(&b.preemptible, o.preemptible, &ps)
	join(&b.powers, o.powers, &ps)
	join(&b.sizes, o.sizes, &ps)
	return ps
}

func join[T any](mine *field[T], other field[T], ps *Problems) {
	switch {
	case !other.set:
	case !mine.set:
		*mine = other
	case !reflect.DeepEqual(mine.value, other.value):
		*ps = append(*ps, Problem{other.where, fmt.Sprintf("%v contradicts %s = %v", other.value, mine.where, mine.value),
			"write it in one group only: it speaks of the whole job"})
	}
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

func whole(f *field[float64], where string, v any) *Problem {
	n, ok := number(v)
	if !ok || n != math.Trunc(n) || !(math.Abs(n) <= MaxWorkers) {
		return &Problem{where, fmt.Sprintf("%s is not a whole number of at most %d", describe(v), MaxWorkers), "write a number such as 2"}
	}
	if n < 1 {
		return &Problem{where, fmt.Sprintf("%v is below 1", n), "write at least 1"}
	}
	*f = field[float64]{n, true, where}
	return nil
}

// positive reads a number from low to high, which are above 0.
func positive(f *field[float64], where string, v any, low, high float64) *Problem {
	n, ok := number(v)
	switch {
	case !ok:
		return &Problem{where, describe(v) + " is not a number", "write a number above 0"}
	case n <= 0:
		return &Problem{where, fmt.Sprintf("%v is not above 0", n), "write a number above 0"}
	case !(n >= low && n <= high):
		return &Problem{where, fmt.Sprintf("%v is not from %v to %v", n, low, high), "write a number within"}
	}
	*f = field[float64]{n, true, where}
	return nil
}

func priority(f *field[float64], where string, v any) *Problem {
	if p := whole(f, where, v); p != nil {
		return p
	}
	if f.value > 100 {
		return &Problem{where, fmt.Sprintf("%v is above 100", f.value), "write 1 to 100, as for a job's priority in Nomad"}
	}
	return nil
}

func text(f *field[string], where string, v any) *Problem {
	s, ok := v.(string)
	if !ok || s == "" {
		return &Problem{where, describe(v) + " is not a text", "write it in quotes, and not empty"}
	}
	if len(s) > maxName {
		return &Problem{where, fmt.Sprintf("it has %d bytes", len(s)), fmt.Sprintf("write at most %d bytes", maxName)}
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return &Problem{where, fmt.Sprintf("%q holds control characters", s), "write letters, digits and punctuation"}
	}
	*f = field[string]{s, true, where}
	return nil
}

func truth(f *field[bool], where string, v any) *Problem {
	b, ok := v.(bool)
	if !ok {
		return &Problem{where, describe(v) + " is not true or false", "write true or false without quotes"}
	}
	*f = field[bool]{b, true, where}
	return nil
}

func wholes(f *field[[]int], where string, v any) *Problem {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return &Problem{where, describe(v) + " is not a list of sizes", "write a list such as sizes = [2, 4, 8]"}
	}
	if len(list) > maxSizes {
		return &Problem{where, fmt.Sprintf("it lists %d sizes", len(list)), fmt.Sprintf("write at most %d, or a step", maxSizes)}
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

// short is the beginning of a text that may be long.
func short(s string) string {
	const enough = 64
	if len(s) <= enough {
		return s
	}
	return s[:enough] + "…"
}

// meant names the key that was probably meant.
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
