// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package sizes holds the numbers of workers that a job may have, by the rule
// that allows them and not as a list of them all: a job of up to a hundred
// thousand workers in steps of two costs as much as one of up to four.
package sizes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Set is a set of numbers of workers: a list of them, or every step-th from a
// first one on. The zero Set holds every number from 1 on. A Set is immutable
// and may be shared.
type Set struct {
	list        []int // ascending, without repeats
	first, step int   // where step is not 0
}

// List is the set of the given numbers, in any order. Numbers below 1 are left
// out. No numbers at all give the zero Set.
func List(numbers ...int) Set {
	if len(numbers) == 0 {
		return Set{}
	}
	list := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n < 1 })
	slices.Sort(list)
	return Set{list: slices.Compact(list)}
}

// Every is the set of first, first+step, first+2·step and so on. A step of at
// most 1 gives the zero Set.
func Every(first, step int) Set {
	if step <= 1 {
		return Set{}
	}
	return Set{first: max(first, 1), step: step}
}

// Powers is the set of the powers of two from low to high, at most 63 numbers; the zero Set where there is none.
func Powers(low, high int) Set {
	var list []int
	for n := 1; n <= high && n > 0; n *= 2 {
		if n >= low {
			list = append(list, n)
		}
	}
	return Set{list: list}
}

// All reports whether the set holds every number from 1 on.
func (s Set) All() bool { return s.list == nil && s.step == 0 }

// Listed are the numbers of a set that was made of a list, nil for another.
func (s Set) Listed() []int { return slices.Clone(s.list) }

// Step is the distance between two numbers of a set made by Every, 0 for
// another.
func (s Set) Step() int { return s.step }

// Contains reports whether n is in the set.
func (s Set) Contains(n int) bool { return n > 0 && s.AtMost(n) == n }

// Above is the smallest number of the set that is greater than n, 0 if there is
// none.
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

// AtMost is the largest number of the set that is not greater than n, 0 if
// there is none.
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

// Fit is the largest number of the set that is at most n and lies between low and
// high, both included; 0 if there is none.
func (s Set) Fit(n, low, high int) int {
	if fit := s.AtMost(min(n, high)); fit >= low {
		return fit
	}
	return 0
}

// Count is how many numbers of the set lie between low and high, both included.
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

// Equal reports whether two sets hold the same numbers by the same rule.
func (s Set) Equal(o Set) bool {
	return s.first == o.first && s.step == o.step && slices.Equal(s.list, o.list) && (s.list == nil) == (o.list == nil)
}

// String is the rule in a few words.
func (s Set) String() string {
	switch {
	case s.list != nil:
		return fmt.Sprint(s.list)
	case s.step == 0:
		return "all"
	}
	return fmt.Sprintf("%d, %d, …", s.first, s.first+s.step)
}

// rule is how a set of steps is written in JSON.
type rule struct {
	From int `json:"from"`
	Step int `json:"step"`
}

// IsZero makes omitzero leave out the set of all numbers.
func (s Set) IsZero() bool { return s.All() }

// MarshalJSON writes a list as a list, steps as {"from": 2, "step": 3}, and all
// numbers as null.
func (s Set) MarshalJSON() ([]byte, error) {
	if s.step > 0 {
		return json.Marshal(rule{s.first, s.step})
	}
	return json.Marshal(s.list)
}

// UnmarshalJSON reads what MarshalJSON writes.
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
