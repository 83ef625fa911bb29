// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package sizes represents the numbers of workers that a job may have. Where possible, it
// stores the rule that defines them instead of a list. So a job with a hundred thousand
// sizes in equal steps costs as little as one with a few sizes.
package sizes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Set is a set of numbers of workers: a list, or every step-th number from a first one
// on. The zero Set contains every number from 1 on. A Set is immutable and may be shared.
type Set struct {
	list        []int // ascending, without repeats
	first, step int   // used if step is not 0
}

// List returns the set of the given numbers, in any order. It ignores numbers below 1.
// Without any numbers it returns the zero Set.
func List(numbers ...int) Set {
	if len(numbers) == 0 {
		return Set{}
	}
	list := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n < 1 })
	slices.Sort(list)
	return Set{list: slices.Compact(list)}
}

// Every returns the set of first, first+step, first+2·step and so on. If step is at most
// 1, it returns the zero Set.
func Every(first, step int) Set {
	if step <= 1 {
		return Set{}
	}
	return Set{first: max(first, 1), step: step}
}

// Powers returns the set of powers of two from low to high. If there are none, it returns
// the zero Set.
func Powers(low, high int) Set {
	var list []int
	for n := 1; n <= high && n > 0; n *= 2 {
		if n >= low {
			list = append(list, n)
		}
	}
	return Set{list: list}
}

// All reports whether the set contains every number from 1 on.
func (s Set) All() bool { return s.list == nil && s.step == 0 }

// Listed returns the numbers of a set that was made from a list, or nil for other sets.
func (s Set) Listed() []int { return slices.Clone(s.list) }

// Step returns the distance between numbers in a set made by Every, or 0 for other sets.
func (s Set) Step() int { return s.step }

// Contains reports whether n is in the set.
func (s Set) Contains(n int) bool { return n > 0 && s.AtMost(n) == n }

// Above returns the smallest number of the set greater than n, or 0 if there is none.
func (s Set) Above(n int) int {
	switch {
	case s.list != nil:
		i, found := slices.BinarySearch(s.list, n)
		if found {
			i++
		}
		if i == len(s.list) {
			return 0
		}
		return s.list[i]
	case s.step == 0:
		return max(n, 0) + 1
	case n < s.first:
		return s.first
	}
	return n + s.step - (n-s.first)%s.step
}

// AtMost returns the largest number of the set not greater than n, or 0 if there is none.
func (s Set) AtMost(n int) int {
	switch {
	case s.list != nil:
		i, found := slices.BinarySearch(s.list, n)
		if found {
			return n
		}
		if i == 0 {
			return 0
		}
		return s.list[i-1]
	case s.step == 0:
		return max(n, 0)
	case n < s.first:
		return 0
	}
	return n - (n-s.first)%s.step
}

// Fit returns the largest number of the set that is at most n and between low and high
// (inclusive), or 0 if there is none.
func (s Set) Fit(n, low, high int) int {
	if fit := s.AtMost(min(n, high)); fit >= low {
		return fit
	}
	return 0
}

// Over returns the set of all numbers divided by unit, which must divide each of them.
func (s Set) Over(unit int) Set {
	if unit <= 1 {
		return s
	}
	if s.list != nil {
		out := make([]int, len(s.list))
		for i, n := range s.list {
			out[i] = n / unit
		}
		return List(out...)
	}
	return Every(s.first/unit, s.step/unit)
}

// Count returns how many numbers of the set are between low and high (inclusive).
func (s Set) Count(low, high int) int {
	if low = s.Above(low - 1); low == 0 || low > high {
		return 0
	}
	if s.list == nil {
		return (high-low)/max(s.step, 1) + 1
	}
	from, _ := slices.BinarySearch(s.list, low)
	to, _ := slices.BinarySearch(s.list, high+1)
	return to - from
}

// Equal reports whether two sets contain the same numbers by the same rule.
func (s Set) Equal(o Set) bool {
	return s.first == o.first && s.step == o.step && slices.Equal(s.list, o.list) && (s.list == nil) == (o.list == nil)
}

// String returns a short description of the rule.
func (s Set) String() string {
	switch {
	case s.list != nil:
		return fmt.Sprint(s.list)
	case s.step == 0:
		return "all"
	}
	return fmt.Sprintf("%d, %d, …", s.first, s.first+s.step)
}

// rule is the JSON form of a set made by Every.
type rule struct {
	From int `json:"from"`
	Step int `json:"step"`
}

// IsZero reports the same as All, so that the JSON option omitzero omits the set of all
// numbers.
func (s Set) IsZero() bool { return s.All() }

// MarshalJSON writes a list as a list, steps as {"from": 2, "step": 3}, and all
// numbers as null.
func (s Set) MarshalJSON() ([]byte, error) {
	if s.step > 0 {
		return json.Marshal(rule{s.first, s.step})
	}
	return json.Marshal(s.list)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Set) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("{")) {
		var r rule
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		*s = Every(r.From, r.Step)
		return nil
	}
	var list []int
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*s = List(list...)
	return nil
}
