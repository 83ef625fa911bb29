// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
)

// candidate is a job while a policy decides on it.
type candidate struct {
	*policy.Job
	place  int              // in Snapshot.Jobs
	per    int              // GPUs per worker
	low    int              // smallest allowed size
	high   int              // largest allowed size
	want   int              // Preferred as an allowed size that fits the pool
	n      int              // workers given so far
	pinned bool             // runs, and must not be suspended
	score  float64          // of byScore
	snap   *policy.Snapshot // for Checkpoint
	why    string           // reason for the count, without the change itself
	wait   waiting.Reason   // why it has no workers; "" is InQueue

	repeats bool // n is that of an earlier decision, whose reason is not remembered
}

// cost returns the number of GPUs that n workers hold.
func (c *candidate) cost(n int) int { return n * c.per }

// next returns the smallest allowed size above n, or 0 if there is none.
func (c *candidate) next(n int) int {
	c.snap.Checkpoint()
	switch {
	case n >= c.high:
		return 0
	case n < c.low:
		return c.low
	}
	return c.Sizes.Above(n)
}

// floor returns the largest allowed size that is at most n, or 0 if there is none.
func (c *candidate) floor(n int) int {
	switch {
	case n < c.low:
		return 0
	case n >= c.high:
		return c.high
	}
	return c.Sizes.AtMost(n)
}

// speed returns the speed-up of n workers over one worker.
func (c *candidate) speed(n int) float64 {
	c.snap.Checkpoint()
	return c.Curve.Speedup(n)
}

// left returns the remaining work in seconds on one worker, and whether it is
// known.
func (c *candidate) left() (float64, bool) {
	if c.Remaining > 0 && c.Curve.Measured() {
		return c.Remaining * c.Curve.Time(1), true
	}
	return 0, false
}

// weight returns the job's weight, or 1 if it has none.
func (c *candidate) weight() float64 {
	if c.Weight > 0 {
		return c.Weight
	}
	return 1
}

// servicePrior is added to the attained service (GPU-seconds) to guess the
// remaining work of a job of unknown length. The guess is that the job is half
// done; the constant keeps fresh jobs from appearing free of cost.
const servicePrior = 600

// guess returns the declared or, without one, the predicted remaining work, in seconds on one
// worker.
func (c *candidate) guess() float64 {
	if left, ok := c.left(); ok {
		return left
	}
	return c.predict(servicePrior)
}

// predict returns the expected remaining work of a job that declares none. It is a weighted
// mean of a prediction from jobs of its kind or namespace, and its attained service plus prior.
func (c *candidate) predict(prior float64) float64 {
	work := c.Attained + prior
	if c.Alike.Origin == length.Pool {
		return work
	}
	rest, trust := c.Alike.Left(c.Attained)
	return work + trust*(rest-work)
}

// pool holds the GPUs of one type and the jobs that draw on them, in the order of
// the snapshot.
type pool struct {
	gpus int // capacity
	free int // capacity less what was given so far
	jobs []*candidate

	ordinary float64 // median wait of the running jobs, for kolo
}

// set gives c exactly n workers and takes the GPUs from the pool. If there are too
// few, it returns false and changes nothing.
func (p *pool) set(c *candidate, n int) bool {
	c.snap.Checkpoint()
	need := c.cost(n) - c.cost(c.n)
	if need > p.free {
		return false
	}
	p.free -= need
	c.n = n
	return true
}

// byPriority orders jobs by descending priority, then by compare (which may be nil),
// then by their place in the snapshot. It returns a new slice.
func (p *pool) byPriority(compare func(a, b *candidate) int) []*candidate {
	order := slices.Clone(p.jobs)
	same := compare == nil
	for _, c := range order {
		if c.Priority != order[0].Priority {
			same = false
			break
		}
	}
	if same {
		return order
	}
	slices.SortFunc(order, func(a, b *candidate) int {
		if a.Priority != b.Priority {
			return cmp.Compare(b.Priority, a.Priority)
		}
		if compare != nil {
			if d := compare(a, b); d != 0 {
				return d
			}
		}
		return a.place - b.place
	})
	return order
}

// tiers splits jobs that are ordered by priority into one slice per priority.
func tiers(order []*candidate) (out [][]*candidate) {
	for i := 0; i < len(order); {
		end := i + 1
		for end < len(order) && order[end].Priority == order[i].Priority {
			end++
		}
		out = append(out, order[i:end])
		i = end
	}
	return out
}

// byScore orders jobs by descending priority, then by ascending score. It computes
// the score once per job.
func (p *pool) byScore(score func(*candidate) float64) []*candidate {
	for _, c := range p.jobs {
		c.score = score(c)
	}
	return p.byPriority(func(a, b *candidate) int { return cmp.Compare(a.score, b.score) })
}

// waiting reports whether a job of the pool has no workers.
func (p *pool) waiting() bool {
	return slices.ContainsFunc(p.jobs, func(c *candidate) bool { return c.n == 0 })
}

// pin gives every running job that must not be suspended its minimum, in order of
// arrival if the capacity no longer suffices for all.
func (p *pool) pin() {
	for _, c := range p.jobs {
		if c.pinned && p.set(c, c.low) {
			c.why = "keeps its minimum: it must not be suspended"
		}
	}
}

// split sorts the jobs of a snapshot into one pool per GPU type. A job that takes
// any type stays on the type it runs on; a waiting one goes where the most GPUs per
// requested worker remain. Jobs whose minimum exceeds their pool are left out, with
// a reason.
func split(s *policy.Snapshot) (d policy.Decision, out []*pool) {
	types, capacity := s.Capacity()

	d.Allocations = make([]policy.Allocation, len(s.Jobs))
	backing := make([]candidate, len(s.Jobs))
	out = make([]*pool, len(types))
	for i, n := range capacity {
		out[i] = &pool{gpus: n, free: n}
		if len(types) == 1 {
			out[i].jobs = make([]*candidate, 0, len(s.Jobs))
		}
	}
	room := newRooms(types, capacity)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Type != "" {
			room.take(j.Type, j)
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		a := &d.Allocations[i]
		a.Job = j.ID
		c := &backing[i]
		fit(c, j, i)
		c.snap = s
		s.Checkpoint()
		t := j.Type
		if t == "" {
			t = room.choose(j, c.cost(c.low))
		}
		var p *pool
		if k := slices.Index(types, t); k >= 0 {
			p = out[k]
		}
		switch {
		case c.low == 0:
			a.Wait, a.Reason = waiting.Invalid, "waits: no allowed size lies within its bounds"
		case p == nil:
			a.Wait, a.Reason = waiting.Constraint, "waits: the cluster has no GPU of type "+j.Type
		case c.cost(c.low) > p.gpus:
			a.Wait, a.Reason = waiting.NoRoom, "waits: its minimum is more than the whole cluster has"
		default:
			c.want = max(c.floor(min(max(j.Preferred, c.low), p.gpus/c.per)), c.low)
			a.Type = t
			p.jobs = append(p.jobs, c)
		}
	}
	return d, out
}

// fit fills in the fields that do not depend on the pool.
func fit(c *candidate, j *policy.Job, place int) {
	c.Job, c.place = j, place
	c.per = max(j.PerWorker, 1)
	c.pinned = j.Count > 0 && !j.Preemptible
	low, high := max(j.Min, 1), max(j.Max, j.Min, 1)
	if least := j.Sizes.Above(low - 1); least > 0 && least <= high {
		c.low, c.high = least, j.Sizes.AtMost(high)
	}
}

// rooms distributes jobs that take any GPU type over the types.
type rooms struct {
	types []string
	left  map[string]int // capacity minus the minima of jobs assigned there
}

func newRooms(types []string, capacity []int) *rooms {
	r := &rooms{types: types}
	if len(types) < 2 {
		return r
	}
	r.left = make(map[string]int, len(types))
	for i, t := range types {
		r.left[t] = capacity[i]
	}
	return r
}

func (r *rooms) take(t string, j *policy.Job) {
	if r.left != nil {
		r.left[t] -= max(j.Min, 1) * max(j.PerWorker, 1)
	}
}

func (r *rooms) choose(j *policy.Job, need int) string {
	if len(r.types) == 0 {
		return ""
	}
	if r.left == nil {
		return r.types[0]
	}
	best := r.types[0]
	if j.Count > 0 && j.Held != "" && slices.Contains(r.types, j.Held) {
		best = j.Held
	} else {
		for _, t := range r.types[1:] {
			if r.left[t] > r.left[best] {
				best = t
			}
		}
	}
	r.left[best] -= need
	return best
}
