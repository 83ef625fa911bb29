// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// simulateArgs holds the options of kolo simulate as given.
type simulateArgs struct {
	policies, information                  string
	trace, format, workloads               string
	curves, onError                        string
	alpha                                  float64
	grow, maxJobs                          int
	cluster, placement                     string
	placements, phases                     string
	noiseError                             float64
	scatter, noise, crossRack, lengthError float64
	maxMoves                               int
	loads, costs                           string
	seeds                                  int
	interval, period, commit               time.Duration
	hold                                   time.Duration
	tick                                   time.Duration
	mtbf, withdraw, back                   time.Duration
	events                                 string
	syntheticJobs                          int
	syntheticLoad                          float64
	deadlines                              float64
	gangs                                  bool
	similar                                float64
	tenants                                int
	config, pool                           string
	elastic                                float64
	parallel                               int
	json, csv, html, markdown              string
	jobs                                   string
}

func (a *simulateArgs) flags(f *flag.FlagSet) *flag.FlagSet {
	f.StringVar(&a.policies, "policy", defaultPolicies(), "Comma-separated `policies` to compare, or all. See kolo policy list.")
	f.StringVar(&a.information, "information", "oracle", "Information `class` of policies that name none with @.")
	f.Float64Var(&a.lengthError, "length-error", 0, "Error of disclosed remaining work, as the standard deviation of the logarithm of a factor, a `number` up to 10. 1 means a typical factor of 2.7.")
	f.Float64Var(&a.noise, "noise", 0.05, "Relative standard deviation of one measured step, as a `fraction`.")

	f.Float64Var(&a.noiseError, "noise-error", 0, "Error with which jobs that adapt their batch size (-phases) measure their gradient noise scale, as the\nstandard deviation of the logarithm of a factor, a `number` up to 10. 0.7 means a typical factor of 2.")

	f.StringVar(&a.trace, "trace", "", "Trace `file` to replay. Without it, a workload is generated.")
	f.StringVar(&a.format, "format", "auto", "The `format` of the trace: auto, pollux, voda, philly, helios, elasticflow, acme, alibaba or kolo.")
	f.StringVar(&a.workloads, "workload", "all", "Comma-separated `numbers` of the workloads in a Pollux trace. Each is run by\nitself, and results are averaged over them.")
	f.StringVar(&a.curves, "curves", "", "Where the step times are: `path` of step_times.csv of a Pollux trace (default: next to it) or\nthe directory of ElasticFlow's throughput files.")
	f.StringVar(&a.onError, "errors", "strict", "What to do about invalid entries of a trace: a `word`, strict (end at the first) or\nskip (leave them out and list them).")
	f.Float64Var(&a.alpha, "alpha", 0.9, "Speed-up n^`alpha` assumed for jobs whose trace has no step times by size.")
	f.IntVar(&a.grow, "grow", 4, "How many `times` their size jobs without step times may grow to.")
	f.IntVar(&a.maxJobs, "max-jobs", 0, "Read at most this `number` of jobs.")

	f.StringVar(&a.cluster, "cluster", "", "Nodes of the cluster, as comma-separated `groups` NODESxGPUS[/RACK][:TYPE[@SPEED]],\nsuch as 16x4, 16x4/4 (racks of 4 nodes) or 8x8:a100@2,16x4:t4. Default: that of the trace, else 16x4.")
	f.StringVar(&a.placement, "placement", "pack", "Comma-separated `ways` in which workers are placed: pack (few nodes), spread, count\n(nodes ignored), nomad (as its scheduler does), aware (by step time), or migrate (aware,\nand workers of running jobs move). Each policy is run with each.")
	f.StringVar(&a.placements, "placements", "", "CSV `file` of true step times by placement: application, batch_size, placement\n(2+1+1 is four GPUs on three nodes), step_time_s.")
	f.StringVar(&a.phases, "phases", "", "CSV `file` of the goodput of jobs that adapt their batch size: application, phase, end, gpus,\nstep_time_s (seconds per unit of progress). -noise-error also needs batch and accum, and\ngradients.csv next to the file.")
	f.Float64Var(&a.scatter, "scatter", 0, "How much longer a step takes on more nodes than needed, as a `fraction`.")

	f.Float64Var(&a.crossRack, "cross-rack", 0, "How much longer a step takes on more than one rack, as a `fraction`.")
	f.IntVar(&a.maxMoves, "max-migrations", 0, "At most this `number` of migrations of one job within an hour. 0 is no limit.")

	f.StringVar(&a.loads, "loads", "1", "Comma-separated `loads`, relative to the trace.")
	f.StringVar(&a.costs, "resize-costs", "1", "Comma-separated `costs` of a resize: seconds without training, measured (from\nthe trace), or gaps by size such as 1=0.4;4=0.8;16=2.")
	f.IntVar(&a.seeds, "seeds", 1, "How many `variants` of each workload to run; the first is the trace as it is.")
	f.IntVar(&a.parallel, "parallel", 0, "How many `runs` to do at the same time. 0 is one per processor.")

	f.DurationVar(&a.interval, "interval", 0, "Least `time` between two decisions.")
	f.DurationVar(&a.hold, "hold", 0, "The `time` after a change of a job in which the job does not change again (30s in the live planner).")
	f.DurationVar(&a.period, "period", 0, "Decide every `time` even if nothing happens.")
	f.DurationVar(&a.commit, "commit", time.Minute, "Training `time` between two commits; a failure goes back to the last one.")
	f.DurationVar(&a.tick, "tick", 0, "Simulate in ticks of this `time`, by the rules of published count-level replays.")
	f.DurationVar(&a.mtbf, "mtbf", 0, "Mean `time` until a node fails. 0 is never.")
	f.DurationVar(&a.withdraw, "spot", 0, "Mean `time` until a node is withdrawn, as spot instances are. 0 is never.")
	f.DurationVar(&a.back, "mttr", time.Hour, "Mean `time` until a failed or withdrawn node is back.")
	f.StringVar(&a.events, "events", "", "CSV `file` of node events: time, node, event (down, up or withdraw).")

	f.IntVar(&a.syntheticJobs, "synthetic-jobs", 160, "The `number` of jobs of a generated workload.")
	f.Float64Var(&a.syntheticLoad, "synthetic-load", 0.8, "The `load` of a generated workload, as a multiple of the cluster's capacity.")
	f.Float64Var(&a.deadlines, "synthetic-deadlines", 0, "The `share` of the jobs of a generated workload that have a deadline.")
	f.BoolVar(&a.gangs, "synthetic-gangs", false, "Generate a workload in which a few gangs of 64 to 512 GPUs hold nearly all of the GPU time.")
	f.Float64Var(&a.similar, "synthetic-similar", 0, "With a number above 0, generate one-GPU jobs that do not scale; the `number` is the standard deviation of the logarithm of their lengths.")
	f.IntVar(&a.tenants, "synthetic-tenants", 1, "The `number` of tenants in a generated workload.")

	f.Float64Var(&a.elastic, "elastic", 1, "The `share` of jobs that are elastic. The others always have their preferred size.")
	f.StringVar(&a.config, "config", "", "Configuration `path` of an autoscaler: the cluster is divided between the queues of a\npool. A job is in the queue of its tenant's name,\nor else in the one that takes the tenant as a namespace.")
	f.StringVar(&a.pool, "pool", "default", "The `name` of that pool.")

	f.StringVar(&a.json, "json", "", "Write everything as JSON to this `file`.")
	f.StringVar(&a.csv, "csv", "", "Write one line for each run to this `file`.")
	f.StringVar(&a.jobs, "jobs", "", "Write one line for each job of the first runs to this `file`.")
	f.StringVar(&a.html, "html", "", "Write a report with plots to this `file`.")
	f.StringVar(&a.markdown, "markdown", "", "Write a Markdown table to this `file`.")
	return f
}

// sweep converts the options to a sweep. It also returns the errors of skipped
// lines of the trace.
func (a *simulateArgs) sweep() (*sim.Sweep, []error, error) {
	s := &sim.Sweep{Seeds: a.seeds, Parallel: a.parallel, Tick: a.tick.Seconds()}
	if a.seeds < 1 {
		return nil, nil, badFlag("-seeds %d: want at least 1", a.seeds)
	}
	placed, err := parsePlacements(a.placement)
	if err != nil {
		return nil, nil, err
	}
	if err := a.checkPlaces(placed); err != nil {
		return nil, nil, err
	}
	if err := a.checkPhases(); err != nil {
		return nil, nil, err
	}
	if s.Contestants, err = a.contestants(placed); err != nil {
		return nil, nil, err
	}
	if err := a.queues(s); err != nil {
		return nil, nil, err
	}
	if s.Loads, err = numbers("loads", a.loads); err != nil {
		return nil, nil, err
	}
	for _, l := range s.Loads {
		if l <= 0 {
			return nil, nil, badFlag("-loads: want numbers above 0, got %g", l)
		}
	}
	nodes, speed, err := parseCluster(a.cluster)
	if err != nil {
		return nil, nil, err
	}
	skipped, err := a.workload(s, nodes)
	if err != nil {
		return nil, nil, err
	}
	if err := a.fix(s); err != nil {
		return nil, nil, err
	}
	if err := a.spans(s.Workloads, placed); err != nil {
		return nil, nil, err
	}
	first := s.Workloads[0]
	if nodes == nil {
		nodes = first.Nodes
		s.Base.Events = first.Events
	}
	if nodes == nil {
		nodes = sim.Uniform(16, 4, "")
	}
	if a.crossRack > 0 && !slices.ContainsFunc(nodes, func(n trace.Node) bool { return n.Rack != "" }) {
		return nil, nil, badFlag("-cross-rack %g: no node is in a rack; name racks in -cluster, such as 16x4/4", a.crossRack)
	}
	s.Base.Nodes, s.Base.Speed = nodes, speed
	if err := limit(s.Workloads, nodes); err != nil {
		return nil, nil, err
	}
	if s.Costs, err = parseCosts(a.costs, first.Gaps); err != nil {
		return nil, nil, err
	}
	s.Base.Placement = placed[0]
	s.Base.Scatter, s.Base.CrossRack, s.Base.MaxMoves = a.scatter, a.crossRack, a.maxMoves
	s.Base.Interval, s.Base.Period, s.Base.Commit = a.interval.Seconds(), a.period.Seconds(), a.commit.Seconds()
	s.Base.Hold = a.hold.Seconds()
	s.Faults = sim.Faults{FailEvery: a.mtbf.Seconds(), WithdrawEvery: a.withdraw.Seconds(), Back: a.back.Seconds()}
	if a.events != "" {
		if s.Base.Events, err = trace.OpenNodeEvents(a.events); err != nil {
			return nil, nil, err
		}
	}
	return s, skipped, nil
}

// mostLengthError is the largest -length-error. A factor of e¹⁰ either way says nothing about a
// length, and with a much larger one, remaining work would be infinite.
const mostLengthError = 10

// checkPlaces checks the options for placements and for the precision of their
// measurement.
func (a *simulateArgs) checkPlaces(placed []sim.Placement) error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"scatter", a.scatter}, {"cross-rack", a.crossRack}, {"noise", a.noise}, {"length-error", a.lengthError}, {"synthetic-similar", a.similar}} {
		if !(f.value >= 0) || math.IsInf(f.value, 1) {
			return badFlag("-%s: want a fraction of 0 or more, got %g", f.name, f.value)
		}
	}
	switch {
	case a.lengthError > mostLengthError:
		return badFlag("-length-error: want %d or less, got %g", mostLengthError, a.lengthError)
	case a.maxMoves < 0:
		return badFlag("-max-migrations: want a number, 0 for no limit, got %d", a.maxMoves)
	case a.maxMoves > 0 && !slices.Contains(placed, sim.Migrate):
		return badFlag("-max-migrations: only -placement migrate moves workers; add it, or leave this out")
	case a.tick > 0 && slices.ContainsFunc(placed, func(p sim.Placement) bool { return p >= sim.Nomad }):
		return badFlag("-placement %s: there is no placement in ticks; leave out -tick", a.placement)
	}
	return nil
}

// workload reads the trace, or generates one.
func (a *simulateArgs) workload(s *sim.Sweep, nodes []trace.Node) ([]error, error) {
	if a.trace == "" {
		gpus := 0
		for _, n := range nodes {
			gpus += n.GPUs
		}
		made := trace.Synthetic{
			Jobs: a.syntheticJobs, GPUs: gpus, Seed: 1,
			Load: a.syntheticLoad, Deadlines: a.deadlines, Gangs: a.gangs, Similar: a.similar, Tenants: a.tenants,
		}
		if made.Jobs < 1 {
			return nil, badFlag("-synthetic-jobs %d: want at least 1", made.Jobs)
		}
		s.Workloads = []*trace.Trace{made.Trace()}
		s.Variant = func(_ *trace.Trace, seed uint64) *trace.Trace {
			again := made
			again.Seed = seed
			return again.Trace()
		}
		return nil, nil
	}
	o := trace.Options{
		Format: trace.Format(a.format), Curves: a.curves, Alpha: a.alpha, Grow: a.grow, MaxJobs: a.maxJobs,
	}
	var err error
	if o.Phases, err = a.adaptive(); err != nil {
		return nil, err
	}
	switch a.onError {
	case "strict":
	case "skip":
		o.Skip = true
	default:
		return nil, badFlag("-errors: want strict or skip, got %q", a.onError)
	}
	which, err := a.numbersOfWorkloads()
	if err != nil {
		return nil, err
	}
	var skipped []error
	for _, w := range which {
		o.Workload = w
		t, err := trace.Open(a.trace, o)
		var entry *trace.Error
		switch {
		case errors.As(err, &entry) && !o.Skip:
			return nil, fmt.Errorf("%w\n-errors skip leaves invalid entries out, and lists them", err)
		case err != nil:
			return nil, err
		}
		if w > 0 {
			t.Name = fmt.Sprintf("%s-%d", t.Name, w)
		}
		skipped = append(skipped, t.Skipped...)
		s.Workloads = append(s.Workloads, t)
	}
	return skipped, nil
}

// spans reads the file of -placements.
func (a *simulateArgs) spans(workloads []*trace.Trace, placed []sim.Placement) error {
	switch {
	case a.placements == "":
		return nil
	case a.tick > 0:
		return badFlag("-placements: there is no placement in ticks; leave out -tick")
	case slices.Contains(placed, sim.CountOnly):
		return badFlag("-placements: -placement count ignores nodes; choose another")
	}
	p, err := trace.OpenPlacements(a.placements)
	if err != nil {
		return err
	}
	for _, w := range workloads {
		if err := p.Apply(w); err != nil {
			return err
		}
	}
	return nil
}

// numbersOfWorkloads returns the numbers of the workloads to read; 0 is the whole
// file.
func (a *simulateArgs) numbersOfWorkloads() ([]int, error) {
	if a.workloads == "all" {
		if a.format == "auto" || a.format == string(trace.Pollux) {
			found, err := trace.Workloads(a.trace)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				return found, nil
			}
		}
		return []int{0}, nil
	}
	var out []int
	for _, word := range strings.Split(a.workloads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, badFlag("-workload: want all or numbers from 1, got %q", word)
		}
		out = append(out, n)
	}
	return out, nil
}

// limit caps the sizes of jobs at the cluster's capacity.
func limit(workloads []*trace.Trace, nodes []trace.Node) error {
	total, byType := 0, map[string]int{}
	for _, n := range nodes {
		total += n.GPUs
		byType[n.Type] += n.GPUs
	}
	for _, w := range workloads {
		never := w.Limit(func(typ string) int {
			if typ == "" {
				return slices.Max(slices.Collect(maps.Values(byType)))
			}
			return byType[typ]
		})
		if len(never) > 0 {
			return fmt.Errorf("%s: %d jobs can never run on this cluster of %d GPUs (%s …); name a larger one with -cluster",
				w.Name, len(never), total, strings.Join(never[:min(3, len(never))], ", "))
		}
	}
	return nil
}
