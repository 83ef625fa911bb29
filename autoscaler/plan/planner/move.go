// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Moving describes a move that has begun: workers of a job go from some of its groups to
// others. With GrowFirst, the job gets its new workers, and keeps the old ones until the new
// ones train. Without it, the job has released its old workers, and waits for room for the new
// ones.
type Moving struct {
	From, To  []int // workers by group, before and after the move
	GrowFirst bool
	Queued    bool      // it has not grown yet: others have to make room first
	Joined    bool      // the new workers train
	Until     time.Time // given up then
	// Gain is the part by which its steps are expected to get faster.
	Gain float64
}

// halfway returns a move's counts between its two halves.
func (m *Moving) halfway() []int {
	out := make([]int, len(m.To))
	for g := range out {
		out[g] = min(m.From[g], m.To[g])
		if m.GrowFirst {
			out[g] = max(m.From[g], m.To[g])
		}
	}
	return out
}

// Underway reports whether counts, a job's workers by group, are those between the two
// halves of the move. If the move is queued, it compares them with the workers before the
// move.
func (m *Moving) Underway(counts []int) bool {
	if m.Queued {
		return slices.Equal(m.From, counts)
	}
	return slices.Equal(m.halfway(), counts)
}

// Settled returns the number of workers that the job has or, during a move, that it will
// have after it. Halfway through a move, the job has more or fewer workers than that. Of a
// gang, whole units count.
func (job *Job) Settled() int {
	if job.Ratio != nil {
		return job.wholeUnits(job.counts())
	}
	if !job.moves() {
		return job.Count()
	}
	n := 0
	for _, k := range job.Moving.To {
		n += k
	}
	return n
}

// moves reports whether a move of the job is under way and may still be completed.
// Since the move began, the user may have changed the job, or the operator the
// topology.
func (job *Job) moves() bool {
	m := job.Moving
	return m != nil && len(m.To) == len(job.Groups) && len(m.From) == len(job.Groups) && m.Underway(job.counts()) &&
		job.mayHave(m.To) && (!m.Queued || job.mayHave(m.halfway()))
}

// mayHave reports whether the job may have these workers in each group.
func (job *Job) mayHave(counts []int) bool {
	n := 0
	for g, k := range counts {
		if group := &job.Groups[g]; k < group.Min || k > group.Max {
			return false
		}
		n += k
	}
	return n >= job.Min && n <= job.Max && job.Sizes.Fit(n, job.Min, job.Max) == n && job.inside(counts)
}

// inside reports whether the job, with these workers in each group, crosses no level that
// it must not cross.
func (job *Job) inside(counts []int) bool {
	if job.Locality == nil || job.Locality.Within == 0 {
		return true
	}
	sites := make([]placement.Site, len(counts))
	for g, n := range counts {
		sites[g] = placement.Site{Path: job.Groups[g].Path, Held: n}
	}
	return placement.Inside(sites, job.Locality.Within)
}

// stranded reports whether a move can neither be completed nor undone: its new workers
// never trained, and the job may no longer have its old counts.
func (b *planBuilder) stranded(j int) bool {
	job := &b.Jobs[j]
	m := job.Moving
	return job.moves() && m.GrowFirst && !m.Queued && !m.Joined && !m.Until.After(b.now) && !job.mayHave(m.From)
}

// underway reports whether a job's move makes progress. While a job must not change, its
// move may stay halfway forever.
func (b *planBuilder) underway(j int) bool {
	job := &b.Jobs[j]
	if !job.moves() || b.stranded(j) || job.Frozen != "" || job.HoldReason != "" || job.ManualUntil.After(b.now) {
		return false
	}
	return job.UnhealthyReason == "" || job.Moving.Until.After(b.now)
}

// route describes a move for messages.
func (job *Job) route(from, to []int) string {
	var left, come []string
	n := 0
	for g := range job.Groups {
		switch d := to[g] - from[g]; {
		case d < 0:
			left = append(left, job.Groups[g].Name)
		case d > 0:
			come = append(come, job.Groups[g].Name)
			n += d
		}
	}
	s := "s"
	if n == 1 {
		s = ""
	}
	return fmt.Sprintf("%d worker%s from %s to %s", n, s, strings.Join(left, ", "), strings.Join(come, ", "))
}

// proceed makes the second half of a job's move, gives the move up, or waits.
func (b *planBuilder) proceed(j int) {
	job := &b.Jobs[j]
	m := job.Moving
	route := job.route(m.From, m.To)
	over := !m.Until.After(b.now)
	switch {
	case m.Queued && b.capacity.awaited(j):
		grown := *m
		grown.Queued = false
		a := b.action(j, m.halfway(), Migrate, route+": there is room now")
		a.Moving = &grown
		b.act(j, a)
	case m.Queued && !over:
		b.wait(j, job.Settled(), m.Until, "moves "+route+": others have to make room first")
	case m.Queued:
	case m.GrowFirst && m.Joined:
		b.act(j, b.action(j, m.To, Migrate, "moved "+route))
	case m.GrowFirst && over:
		// The old workers train on.
		a := b.action(j, m.From, Rollback, "does not move "+route+": the new ones do not train in time")
		a.Unplaced = m.grown(job)
		b.act(j, a)
	case m.GrowFirst:
		b.wait(j, job.Settled(), m.Until, "moves "+route+": the new ones do not train yet")
	case job.Alive() > job.Count():
		b.wait(j, job.Settled(), m.Until, "moves "+route+": the old ones are ending")
	case b.capacity.awaited(j):
		b.act(j, b.action(j, m.To, Migrate, "moved "+route))
	case !over:
		b.wait(j, job.Settled(), m.Until, "moves "+route+": there is no room for the new ones yet")
	}
}

// grown returns the groups that get workers by the move.
func (m *Moving) grown(job *Job) (out []string) {
	for g := range m.To {
		if m.To[g] > m.From[g] {
			out = append(out, job.Groups[g].Name)
		}
	}
	return out
}

// await reserves room for the new workers of a move that does not have them
// yet.
func (c *capacity) await(j int) {
	job := &c.cluster.Jobs[j]
	if !job.moves() || job.Moving.GrowFirst && !job.Moving.Queued || job.Frozen != "" || job.Stopped {
		return
	}
	all := true
	for g, n := range job.Moving.To {
		more := max(0, n-job.Groups[g].Count)
		all = c.take(j, g, more) >= more && all
	}
	if all {
		c.arriving[j] = true
	}
}

// awaited reports whether there is room for all new workers of a job's move.
func (c *capacity) awaited(j int) bool { return c.arriving[j] }
