// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package timeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Key identifies one line: the slots that a job holds in a node pool. The line of the zero
// job is the capacity of the pool.
type Key struct {
	Pool string
	Job  identity.JobKey
}

// Change sets the number of slots of a line at a time.
type Change struct {
	At    time.Time
	Key   Key
	Slots int
}

// Line is one line over time. The number of slots stays the same until the next point.
type Line struct {
	Key    Key
	Points []Point
}

// Point is a number of slots from a time on.
type Point struct {
	At    time.Time
	Slots int
}

// Slots remembers the slots that each job held. It is not safe for concurrent use.
type Slots struct {
	keep  time.Duration
	most  int
	since time.Time   // nothing before this is known
	base  map[Key]int // at since
	now   map[Key]int // after the whole log
	log   []Change    // by time
}

// NewSlots returns an empty record that goes back no further than keep and holds no more
// than a number of changes.
func NewSlots(keep time.Duration, most int) *Slots {
	return &Slots{keep: keep, most: most, base: map[Key]int{}, now: map[Key]int{}}
}

// Empty reports whether nothing has been recorded yet.
func (s *Slots) Empty() bool { return s.since.IsZero() }

// Seed fills an empty record with the known past. deltas holds the slots that each line gained
// or lost, in any order.
func (s *Slots) Seed(deltas []Change, now time.Time) {
	deltas = slices.Clone(deltas)
	slices.SortStableFunc(deltas, func(a, b Change) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.Slots, a.Slots)) })
	s.since = now
	for _, d := range deltas {
		if d.At.After(now) {
			break
		}
		if d.At.Before(s.since) {
			s.since = d.At
		}
		s.set(d.At, d.Key, max(0, s.now[d.Key]+d.Slots))
	}
	s.trim(now)
}

// Record records the slots of all lines at a time. Lines that are missing have none.
func (s *Slots) Record(now time.Time, slots map[Key]int) {
	if s.since.IsZero() {
		s.since = now
	}
	if n := len(s.log); n > 0 && now.Before(s.log[n-1].At) {
		now = s.log[n-1].At // the clock was set back
	}
	for key := range s.now {
		if slots[key] == 0 {
			s.set(now, key, 0)
		}
	}
	for key, n := range slots {
		s.set(now, key, n)
	}
	s.trim(now)
}

func (s *Slots) set(at time.Time, key Key, n int) {
	if s.now[key] == n {
		return
	}
	put(s.now, key, n)
	s.log = append(s.log, Change{at, key, n})
}

// trim forgets changes that are too old and, if there are too many, the oldest ones.
func (s *Slots) trim(now time.Time) {
	oldest := now.Add(-s.keep)
	n := max(0, len(s.log)-s.most)
	for n < len(s.log) && s.log[n].At.Before(oldest) {
		n++
	}
	for _, c := range s.log[:n] {
		put(s.base, c.Key, c.Slots)
		s.since = c.At
	}
	s.log = slices.Delete(s.log, 0, n)
	if s.since.Before(oldest) {
		s.since = oldest
	}
}

func put(m map[Key]int, key Key, n int) {
	if n == 0 {
		delete(m, key)
	} else {
		m[key] = n
	}
}

// Since returns the lines from a time on, sorted by key, and the time since which they are
// known. Each line begins with its slots at that time, unless it has none then.
func (s *Slots) Since(from time.Time) ([]Line, time.Time) {
	if from.Before(s.since) {
		from = s.since
	}
	at := maps.Clone(s.base)
	rest := s.log
	for len(rest) > 0 && !rest[0].At.After(from) {
		put(at, rest[0].Key, rest[0].Slots)
		rest = rest[1:]
	}
	lines := map[Key][]Point{}
	for key, n := range at {
		lines[key] = []Point{{from, n}}
	}
	for _, c := range rest {
		lines[c.Key] = append(lines[c.Key], Point{c.At, c.Slots})
	}
	out := make([]Line, 0, len(lines))
	for key, points := range lines {
		out = append(out, Line{key, points})
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Key.Pool, b.Key.Pool), cmp.Compare(a.Key.Job.Namespace, b.Key.Job.Namespace), cmp.Compare(a.Key.Job.ID, b.Key.Job.ID))
	})
	return out, from
}
