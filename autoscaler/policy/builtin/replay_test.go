// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// The Pollux workloads replayed by count with fixed ticks: an independent
// check that the policies decide as the published comparison did. The data
// are not part of the project.

func sharedDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("KOLO_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "pollux", "jobs.csv")); err != nil {
		t.Skipf("no Pollux workloads: set KOLO_SHARED (%v)", err)
	}
	return dir
}

// table reads a CSV file as one map per row.
func table(t testing.TB, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	must.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must.NoError(t, err)
	out := make([]map[string]string, 0, len(rows))
	for _, row := range rows[1:] {
		m := make(map[string]string, len(row))
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	must.NoError(t, err)
	return n
}

func atof(t testing.TB, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	must.NoError(t, err)
	return f
}

// replayed is a job of the replay and what the replay alone knows of it.
type replayed struct {
	policy.Job
	steps, delay, done float64
	finished           bool
}

func workload(t testing.TB, dir, number string) []*replayed {
	t.Helper()
	points := map[string][]speedup.Point{}
	for _, r := range table(t, filepath.Join(dir, "data", "pollux", "step_times.csv")) {
		key := r["application"] + "/" + r["batch_size"]
		points[key] = append(points[key], speedup.Point{Size: atoi(t, r["gpus"]), StepTime: atof(t, r["step_time_s"])})
	}
	curves := map[string]speedup.Curve{}
	for key, p := range points {
		curves[key] = speedup.NewCurve(p...)
	}
	var jobs []*replayed
	for _, r := range table(t, filepath.Join(dir, "data", "pollux", "jobs.csv")) {
		if r["workload"] != number {
			continue
		}
		curve := curves[r["application"]+"/"+r["batch_size"]]
		high := min(atoi(t, r["max_replicas"]), curve.Largest())
		jobs = append(jobs, &replayed{
			Job: policy.Job{
				ID: r["name"], Submit: atof(t, r["submit_s"]), Min: 1, Max: high,
				Preferred: min(atoi(t, r["np"]), high), Preemptible: true, Curve: curve, Weight: 1,
			},
			steps: atof(t, r["steps"]),
		})
	}
	return jobs
}

// replay runs the tick rules: 60 s ticks, a resized job holds its GPUs for
// cost seconds without progress. known states that policies see how much work is
// left.
func replay(t testing.TB, p policy.Policy, jobs []*replayed, gpus int, cost float64, known bool) (jct, makespan float64, resizes int) {
	t.Helper()
	const tick = 60.0
	now, state, members := 0.0, []byte(nil), ""
	for left := len(jobs); left > 0; {
		for _, j := range jobs {
			if j.finished || j.Count == 0 {
				continue
			}
			d := min(j.delay, tick)
			j.delay -= d
			u := tick - d
			need := j.steps * j.Curve.Time(j.Count)
			if need <= u {
				j.finished, j.done = true, now+d+need
				j.Attained += (d + need) * float64(j.Count)
				left--
			} else {
				j.steps -= u / j.Curve.Time(j.Count)
				j.Done += u / j.Curve.Time(j.Count)
				j.Attained += tick * float64(j.Count)
			}
			j.RunTime += tick
		}
		now += tick
		s := policy.Snapshot{Now: now, ResizeCost: cost, State: state, Nodes: []policy.Node{{ID: "all", GPUs: gpus}}}
		var active []*replayed
		var set strings.Builder
		for _, j := range jobs {
			if j.Submit <= now && !j.finished {
				if known {
					j.Remaining = j.steps
				}
				active = append(active, j)
				s.Jobs = append(s.Jobs, j.Job)
				set.WriteString(j.ID + " ")
			}
		}
		s.Changed, members = set.String() != members, set.String()
		d := p.Allocate(&s)
		state = d.State
		for i, j := range active {
			n := d.Allocations[i].Count
			if n == j.Count {
				continue
			}
			j.Count, j.LastChange = n, now
			if n == 0 {
				continue
			}
			j.delay = cost
			if j.FirstStart == 0 {
				j.FirstStart = now
			} else {
				j.Resizes++
			}
		}
		must.Less(t, 400_000, now, must.Sprint("jobs starve"))
	}
	for _, j := range jobs {
		jct += (j.done - j.Submit) / float64(len(jobs))
		makespan = max(makespan, j.done)
		resizes += j.Resizes
	}
	return jct, makespan, resizes
}

// tickRules maps the names of the reference replay to policies.
var tickRules = map[string]string{
	"fifo_skip":  "fifo",
	"tiresias":   `tiresias(thresholds=[57600], starvation=0, order="submit")`,
	"srtf":       "srjf",
	"efifo":      "elastic-fifo",
	"efifo_eff":  "elastic-fifo(efficiency=0.25)",
	"maxspeed":   `ffdl(method="greedy")`,
	"afsl":       "afs-l",
	"afsl_blind": "afs-l(blind=true)",
}

func TestReplay_PublishedAverages(t *testing.T) {
	dir := sharedDir(t)
	for name, want := range map[string][4]float64{
		"fifo_skip":  {4680, 9399, 3599, 9292},
		"tiresias":   {2429, 4956, 3599, 3160},
		"srtf":       {2309, 3565, 2783, 3030},
		"efifo":      {2916, 5026, 3742, 3858},
		"efifo_eff":  {2667, 4667, 3139, 3302},
		"maxspeed":   {2629, 4588, 2831, 3834},
		"afsl":       {2353, 3693, 2676, 3024},
		"afsl_blind": {2363, 3974, 2756, 3063},
	} {
		t.Run(name, func(t *testing.T) {
			for w := range 4 {
				p, err := Policies.Parse(tickRules[name])
				must.NoError(t, err)
				jct, makespan, resizes := replay(t, p, workload(t, dir, strconv.Itoa(w+1)), 64, 30, true)
				t.Logf("workload %d: avg JCT %.3f, makespan %.1f, %d resizes", w+1, jct, makespan, resizes)
				must.Eq(t, want[w], math.Round(jct))
			}
		})
	}
}

// TestReplay_Kolo checks the claims of docs/research.md about the default policy, with
// known curves as for the other policies.
func TestReplay_Kolo(t *testing.T) {
	dir := sharedDir(t)
	for name, tc := range map[string]struct {
		known      bool
		cost, most float64
	}{
		"resize 30 s":                 {false, 30, 2900},
		"resize 1 s":                  {false, 1, 2750},
		"resize 30 s, lengths stated": {true, 30, 2700},
	} {
		t.Run(name, func(t *testing.T) {
			average := 0.0
			for w := range 4 {
				p, err := Policies.New("kolo", nil)
				must.NoError(t, err)
				jct, makespan, resizes := replay(t, p, workload(t, dir, strconv.Itoa(w+1)), 64, tc.cost, tc.known)
				t.Logf("workload %d: avg JCT %.1f, makespan %.1f, %d resizes", w+1, jct, makespan, resizes)
				average += jct / 4
			}
			t.Logf("average %.1f", average)
			must.LessEq(t, tc.most, average)
		})
	}
}
