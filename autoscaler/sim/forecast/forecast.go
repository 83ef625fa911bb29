// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

const (
	// MaxJobs is the largest number of jobs in a pool for which there are forecasts.
	MaxJobs = 2000

	// runs is how many times the future is simulated.
	runs = 20

	// workLimit bounds the work of one forecast: the sum over its decisions of their jobs.
	workLimit = 4_000_000

	// ahead is how many seconds the simulations look ahead.
	ahead = 14 * 24 * 3600
)

// ErrTooMany is the error for a pool with more than MaxJobs jobs.
var ErrTooMany = fmt.Errorf("the pool has more than %d jobs", MaxJobs)

// Question holds the present state of a pool, and what is known of its future.
type Question struct {
	Snapshot *policy.Snapshot
	Policy   policy.Policy
	Lengths  []Length // of Snapshot.Jobs, in its order

	// Arrivals are the last jobs that arrived, oldest first. Similar jobs are expected to
	// arrive.
	Arrivals []Arrival
}

// Arrival is a job that arrived, as a policy saw it then.
type Arrival struct {
	Job    policy.Job
	Length Length
}

// Start is the expected start of a waiting job, on the snapshot's clock.
type Start struct {
	Job string

	// The job starts between Earliest and Latest with a probability of about 80 %. It is as
	// likely to start before Middle as after it. If only a lower bound is known, Latest and
	// Middle are 0, and Earliest is the bound. If nothing is known, all are 0.
	Earliest, Middle, Latest float64
}

// Starts returns the expected start of each job of the snapshot without workers, in the
// snapshot's order. It returns an error if ctx ends, if the pool has too many jobs, or if the
// policy fails.
func Starts(ctx context.Context, q *Question) ([]Start, error) {
	asked := map[string]int{}
	var out []Start
	for i := range q.Snapshot.Jobs {
		if j := &q.Snapshot.Jobs[i]; j.Count == 0 {
			asked[j.ID] = len(out)
			out = append(out, Start{Job: j.ID})
		}
	}
	switch {
	case len(out) == 0:
		return nil, nil
	case len(q.Snapshot.Jobs) > MaxJobs:
		return nil, ErrTooMany
	case slots(q.Snapshot) == 0:
		return out, nil
	}
	outcomes := make([]outcome, len(out))
	f := newFuture(q)
	for n := range runs {
		r := &run{Policy: q.Policy, fixed: q.Snapshot.Fixed, asked: asked, starts: make([]float64, len(out)), left: len(out),
			limit: workLimit / runs, until: q.Snapshot.Now + ahead}
		if err := r.simulate(ctx, f, rand.New(rand.NewPCG(q.Snapshot.Seed, uint64(n)))); err != nil {
			return nil, err
		}
		for i, at := range r.starts {
			outcomes[i].add(at, r.ended)
		}
	}
	for i := range out {
		outcomes[i].set(&out[i], q.Snapshot.Now, f.guesses())
	}
	return out, nil
}

// slots returns the capacity of a snapshot.
func slots(s *policy.Snapshot) (n int) {
	for i := range s.Nodes {
		n += s.Nodes[i].GPUs
	}
	return n
}

// run is one simulation. It wraps the policy, so that it learns when jobs start, and can
// end the simulation once that is known of all jobs.
type run struct {
	policy.Policy
	fixed []policy.Fixed

	asked  map[string]int // the jobs whose start is asked for, by ID
	starts []float64      // of them; 0 is not yet
	left   int            // of them, without a start

	work, limit int
	until       float64

	ctx   context.Context //nolint:containedctx // of this run, as in policy.Snapshot
	stop  context.CancelFunc
	ended float64 // when the simulation ended, on its clock
}

// errEnded ends a simulation that has shown enough.
var errEnded = errors.New("the simulation has shown enough")

// simulate runs the simulation of a future to its end.
func (r *run) simulate(ctx context.Context, f *future, rng *rand.Rand) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("policy %s panicked in a forecast: %v", r.Name(), p)
		}
	}()
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.ctx, r.stop = within, func() { stop(errEnded) }
	cfg := f.config(rng)
	cfg.Policy = r
	_, err = sim.Run(within, cfg)
	switch {
	case errors.Is(context.Cause(within), errEnded):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("forecast: %w", err)
	}
	r.ended = r.until // jobs that have not started are never served
	return nil
}

// Allocate implements policy.Policy.
func (r *run) Allocate(s *policy.Snapshot) policy.Decision {
	s.Context, s.Fixed = r.ctx, r.fixed
	d := r.Policy.Allocate(s)
	r.ended = s.Now
	r.work += len(s.Jobs)
	if len(d.Allocations) == len(s.Jobs) {
		for i := range s.Jobs {
			if s.Jobs[i].Count > 0 || d.Allocations[i].Count == 0 {
				continue
			}
			if at, ok := r.asked[s.Jobs[i].ID]; ok && r.starts[at] == 0 {
				r.starts[at] = s.Now
				r.left--
			}
		}
	}
	if r.left == 0 || r.work > r.limit || s.Now > r.until {
		r.stop()
	}
	return d
}
