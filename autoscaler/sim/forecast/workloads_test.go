// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/forecast"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// workload returns one of the four Pollux workloads, which are not part of the project.
func workload(t testing.TB, n int) *trace.Trace {
	t.Helper()
	dir := os.Getenv("KOLO_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "data", "pollux", "jobs.csv")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no reference data: set KOLO_SHARED (%v)", err)
	}
	tr, err := trace.Open(path, trace.Options{Workload: n})
	must.NoError(t, err)
	return tr
}

// asker is a policy that asks for the expected start of each job that arrives and waits.
type asker struct {
	policy.Policy
	t       *testing.T
	jobs    map[string]*trace.Job
	lengths string // what is known of them

	arrivals []policy.Job    // the last ones
	live     map[string]bool // jobs that were there at the last decision
	kinds    map[string][]float64
	pool     []float64
	starts   map[string]forecast.Start
	at       map[string]float64 // when these were asked for
}

const lately = 30

func (a *asker) Allocate(s *policy.Snapshot) policy.Decision {
	d := a.Policy.Allocate(s)
	now := map[string]bool{}
	var fresh []string
	for i := range s.Jobs {
		j := &s.Jobs[i]
		now[j.ID] = true
		if a.live[j.ID] {
			continue
		}
		a.arrivals = append(a.arrivals, *j)
		if d.Allocations[i].Count == 0 {
			fresh = append(fresh, j.ID)
		}
	}
	for id := range a.live {
		if j := a.jobs[id]; !now[id] {
			a.kinds[j.App] = append(a.kinds[j.App], j.Steps*j.StepTime(1))
			a.pool = append(a.pool, j.Steps*j.StepTime(j.Preferred))
		}
	}
	a.live = now
	a.arrivals = a.arrivals[max(0, len(a.arrivals)-lately):]
	if len(fresh) == 0 {
		return d
	}
	q := &forecast.Question{Snapshot: s, Policy: a.Policy}
	for i := range s.Jobs {
		q.Lengths = append(q.Lengths, a.length(s.Jobs[i].ID))
	}
	for _, j := range a.arrivals {
		q.Arrivals = append(q.Arrivals, forecast.Arrival{Job: j, Length: a.length(j.ID)})
	}
	starts, err := forecast.Starts(a.t.Context(), q)
	must.NoError(a.t, err)
	for _, st := range starts {
		if slices.Contains(fresh, st.Job) {
			a.starts[st.Job], a.at[st.Job] = st, s.Now
		}
	}
	return d
}

func (a *asker) length(id string) forecast.Length {
	switch a.lengths {
	case "by kind":
		return forecast.Length{Kind: a.kinds[a.jobs[id].App], Pool: a.pool}
	case "unknown":
		return forecast.Length{}
	}
	return forecast.Length{Pool: a.pool}
}

// score is how good forecasts were.
type score struct {
	waited, ranges, inside, early, late, floors, kept int
	errors                                            []float64 // of the middle, over the wait
	factor2                                           int
}

func (s *score) take(a *asker, r *sim.Result) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		st, ok := a.starts[j.ID]
		if !ok {
			continue
		}
		wait := j.Start - a.at[j.ID]
		s.waited++
		switch {
		case st.Earliest == 0:
			continue
		case st.Latest == 0:
			s.floors++
			if j.Start >= st.Earliest {
				s.kept++
			}
			continue
		}
		s.ranges++
		switch {
		case j.Start < st.Earliest-1:
			s.early++
		case j.Start > st.Latest+1:
			s.late++
		default:
			s.inside++
		}
		said := st.Middle - a.at[j.ID]
		s.errors = append(s.errors, math.Abs(said-wait)/wait)
		if said >= wait/2 && said <= 2*wait {
			s.factor2++
		}
	}
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	slices.Sort(of)
	return of[len(of)/2]
}

// The constants were tuned on workloads 1 and 2. The docs judge them by 3 and 4; one of these
// alone is quick.
var workloads = flag.String("workloads", "3", "the workloads whose starts are forecast")

// TestStarts_Workloads compares forecasts with the real starts, and prints the table of
// docs/benchmarks.md with -v.
func TestStarts_Workloads(t *testing.T) {
	for _, name := range []string{"fifo", "kolo", "srjf"} {
		for _, lengths := range []string{"declared", "by kind", "of the pool", "unknown"} {
			t.Run(name+" "+lengths, func(t *testing.T) {
				t.Parallel()
				var s score
				for n := range strings.SplitSeq(*workloads, ",") {
					number, err := strconv.Atoi(n)
					must.NoError(t, err)
					s.run(t, workload(t, number).Elastic(0.2), name, lengths)
				}
				t.Log(s.row(name, lengths))
				if s.waited < 20 {
					return // too few to judge
				}
				if lengths == "unknown" {
					must.Greater(t, s.floors*9/10, s.kept)
					return
				}
				must.GreaterEq(t, 0.8*float64(s.ranges), float64(s.inside))
				must.GreaterEq(t, 0.5*float64(s.ranges), float64(s.factor2))
			})
		}
	}
}

// run simulates a workload and takes in how good the forecasts were.
func (s *score) run(t *testing.T, tr *trace.Trace, name, lengths string) {
	p, err := builtin.Policies.Parse(name)
	must.NoError(t, err)
	info, err := sim.ParseClass(map[string]string{"declared": "oracle", "by kind": "kinds"}[lengths], 0)
	if err != nil {
		info = sim.Info{} // blind
	}
	a := &asker{
		Policy: p, t: t, lengths: lengths, jobs: map[string]*trace.Job{},
		kinds: map[string][]float64{}, starts: map[string]forecast.Start{}, at: map[string]float64{},
	}
	for i := range tr.Jobs {
		a.jobs[tr.Jobs[i].ID] = &tr.Jobs[i]
	}
	r, err := sim.Run(t.Context(), sim.Config{Trace: tr, Nodes: sim.Uniform(16, 4, ""), Policy: a, Info: info, Resize: sim.ResizeCost{Constant: 30}, Seed: 1})
	must.NoError(t, err)
	s.take(a, r)
}

// row returns a row of the table.
func (s *score) row(name, lengths string) string {
	share := func(n, of int) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
	}
	return fmt.Sprintf("| `%s` | %s | %d | %d | %s | %s | %s | %s | %.2f | %d | %s |", name, lengths, s.waited, s.ranges, share(s.inside, s.ranges),
		share(s.early, s.ranges), share(s.late, s.ranges), share(s.factor2, s.ranges), median(s.errors), s.floors, share(s.kept, s.floors))
}
