// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Contestant is a policy together with the information that it gets.
type Contestant struct {
	Label string // as the user wrote it
	New   func() (policy.Policy, error)
	Info  Info

	// Placement, if not nil, replaces that of Sweep.Base.
	Placement *Placement
}

// Sweep compares policies over workloads, loads, resize costs and seeds.
type Sweep struct {
	Contestants []Contestant
	Workloads   []*trace.Trace
	Loads       []float64
	Costs       []ResizeCost

	// Seeds is how many variants of each workload are run. The first is the workload
	// itself; others have the gaps between arrivals in another order, other noise and other
	// failures.
	Seeds int

	// Variant, if set, makes the variants instead: for workloads that are generated.
	Variant func(workload *trace.Trace, seed uint64) *trace.Trace

	// Base holds everything else. Its Trace, Policy, Info, Resize and Seed are filled in
	// for each run.
	Base Config

	// Faults adds failures that depend on the seed.
	Faults Faults

	// Tick, if above 0, is the length of a tick in seconds; RunTicks then
	// simulates.
	Tick float64

	// Parallel is the number of concurrent runs; 0 means one per processor. It does not
	// change results.
	Parallel int

	// Progress is called after each run, never concurrently.
	Progress func(done, total int)
}

// Cell is the result of one policy at one load and resize cost.
type Cell struct {
	Policy string
	Class  string // information class
	Load   float64
	Cost   ResizeCost

	// Runs holds a summary for each workload and seed, by
	// [workload][seed-1].
	Runs [][]Summary

	// Detail is the run of the first workload with the first seed, with its history. Only
	// cells of the first load and cost have one.
	Detail *Result

	// JCTs holds the completion times of all runs, in the same cells.
	JCTs []float64
}

// Estimate returns a metric over all runs of the cell: averaged over workloads, then over
// seeds.
func (c *Cell) Estimate(m Metric) Estimate {
	if len(c.Runs) == 0 {
		return Estimate{}
	}
	perSeed := make([]float64, len(c.Runs[0]))
	for s := range perSeed {
		for w := range c.Runs {
			perSeed[s] += m.Of(&c.Runs[w][s]) / float64(len(c.Runs))
		}
	}
	return estimate(perSeed)
}

// Comparison is the outcome of a Sweep: one cell for each load, resize cost
// and policy, in this order of nesting.
type Comparison struct {
	Workloads []string
	Seeds     int
	GPUs      int
	Nodes     int
	Tick      float64
	Cells     []Cell
}

// Run runs all simulations of the sweep. The number that run in parallel (Parallel) does
// not change the comparison.
func (s *Sweep) Run(ctx context.Context) (*Comparison, error) {
	if len(s.Contestants) == 0 || len(s.Workloads) == 0 || len(s.Loads) == 0 || len(s.Costs) == 0 || s.Seeds < 1 {
		return nil, errors.New("sweep: want at least one policy, workload, load, resize cost and seed")
	}
	out := s.empty()
	tasks := s.tasks(out)
	workers := s.Parallel
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	var mu sync.Mutex
	done := 0
	jcts := make([][]float64, len(tasks))
	for i, t := range tasks {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() (err error) {
			if jcts[i], err = s.run(gctx, t); err != nil || s.Progress == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			s.Progress(done, len(tasks))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, t := range tasks {
		t.cell.JCTs = append(t.cell.JCTs, jcts[i]...)
	}
	return out, nil
}

// task is one run of a sweep.
type task struct {
	contestant Contestant
	cell       *Cell
	workload   int
	seed       int // from 1
}

// tasks returns the runs of a sweep, in the order of its cells.
func (s *Sweep) tasks(out *Comparison) []task {
	var all []task
	for i := range out.Cells {
		for w := range s.Workloads {
			for seed := 1; seed <= s.Seeds; seed++ {
				all = append(all, task{s.Contestants[i%len(s.Contestants)], &out.Cells[i], w, seed})
			}
		}
	}
	return all
}

// run makes one run, and returns the completion times if its cell keeps them.
func (s *Sweep) run(ctx context.Context, t task) ([]float64, error) {
	w := s.Workloads[t.workload]
	res, err := s.one(ctx, t.contestant, w, t.cell, uint64(t.seed), t.workload == 0 && t.seed == 1)
	if err != nil {
		return nil, fmt.Errorf("%s on %s, load %g, seed %d: %w", t.cell.Policy, w.Name, t.cell.Load, t.seed, err)
	}
	t.cell.Runs[t.workload][t.seed-1] = Summarize(res)
	if !s.detailed(t.cell) {
		return nil, nil
	}
	jcts := make([]float64, len(res.Jobs))
	for i := range res.Jobs {
		jcts[i] = res.Jobs[i].JCT()
	}
	return jcts, nil
}

// empty returns a comparison whose cells have no results yet.
func (s *Sweep) empty() *Comparison {
	out := &Comparison{Seeds: s.Seeds, Nodes: len(s.Base.Nodes), Tick: s.Tick}
	for _, n := range s.Base.Nodes {
		out.GPUs += n.GPUs
	}
	for _, w := range s.Workloads {
		out.Workloads = append(out.Workloads, w.Name)
	}
	for _, load := range s.Loads {
		for _, cost := range s.Costs {
			for _, c := range s.Contestants {
				runs := make([][]Summary, len(s.Workloads))
				for w := range runs {
					runs[w] = make([]Summary, s.Seeds)
				}
				out.Cells = append(out.Cells, Cell{
					Policy: c.Label, Class: c.Info.Class(), Load: load, Cost: cost, Runs: runs,
				})
			}
		}
	}
	return out
}

// detailed reports whether the cell keeps more than summaries.
func (s *Sweep) detailed(c *Cell) bool {
	return c.Load == s.Loads[0] && c.Cost.Equal(s.Costs[0])
}

// one simulates a single run.
func (s *Sweep) one(ctx context.Context, c Contestant, w *trace.Trace, cell *Cell, seed uint64, first bool) (*Result, error) {
	p, err := c.New()
	if err != nil {
		return nil, err
	}
	vary := (*trace.Trace).Permute
	if s.Variant != nil {
		vary = s.Variant
	}
	tr, err := vary(w, seed).Scale(cell.Load, seed)
	if err != nil {
		return nil, err
	}
	cfg := s.Base
	cfg.Trace, cfg.Policy, cfg.Info, cfg.Resize, cfg.Seed = tr, p, c.Info, cell.Cost, seed
	if c.Placement != nil {
		cfg.Placement = *c.Placement
	}
	cfg.History = first && s.detailed(cell)
	var res *Result
	if s.Tick > 0 {
		res, err = RunTicks(ctx, cfg, s.Tick)
	} else {
		if s.Faults.any() {
			cfg.Events = slices.Concat(cfg.Events, s.Faults.Events(cfg.Nodes, tr, seed))
		}
		res, err = Run(ctx, cfg)
	}
	if cfg.History {
		cell.Detail = res
	}
	return res, err
}
