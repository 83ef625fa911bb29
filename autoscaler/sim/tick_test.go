// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
)

// rule is one of the eight policies of the reference replay with its published averages
// over four workloads: JCT, makespan (s), GPU-hours and resizes per job, and the JCT of
// each workload.
type rule struct {
	spec                    string
	jct, makespan, gpuHours float64
	resizes                 float64
	workload1, w2, w3, w4   float64
}

var rules = map[string]rule{
	"fifo_skip":  {"fifo", 6742, 74354, 1050, 0.00, 4680, 9399, 3599, 9292},
	"tiresias":   {`tiresias(thresholds=[57600], starvation=0, order="submit")`, 3536, 78642, 1053, 0.07, 2429, 4956, 3599, 3160},
	"srtf":       {"srjf", 2922, 81515, 1058, 0.47, 2309, 3565, 2783, 3030},
	"efifo":      {"elastic-fifo", 3886, 69201, 1205, 4.00, 2916, 5026, 3742, 3858},
	"efifo_eff":  {"elastic-fifo(efficiency=0.25)", 3444, 66937, 958, 2.13, 2667, 4667, 3139, 3302},
	"maxspeed":   {`ffdl(method="greedy")`, 3470, 61723, 981, 1.77, 2629, 4588, 2831, 3834},
	"afsl":       {"afs-l", 2936, 62008, 999, 2.43, 2353, 3693, 2676, 3024},
	"afsl_blind": {"afs-l(blind=true)", 3039, 61576, 997, 2.87, 2363, 3974, 2756, 3063},
}

func runTicks(t testing.TB, r rule, workload int) *sim.Result {
	t.Helper()
	res, err := sim.RunTicks(t.Context(), sim.Config{
		Trace: pollux(t, workload), Nodes: sim.Uniform(16, 4, ""), Policy: parse(t, r.spec),
		Info: sim.Info{Remaining: true, Curves: true}, Resize: sim.ResizeCost{Constant: 30},
	}, 60)
	must.NoError(t, err)
	return res
}

// TestTicks_PublishedAverages compares with the published numbers for these rules, to their
// last digit.
func TestTicks_PublishedAverages(t *testing.T) {
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			var jct, makespan, hours, resizes float64
			for w, want := range []float64{r.workload1, r.w2, r.w3, r.w4} {
				s := sim.Summarize(runTicks(t, r, w+1))
				must.Eq(t, want, math.Round(s.JCT.Mean))
				jct += s.JCT.Mean / 4
				makespan += s.Makespan / 4
				hours += s.GPUHours / 4
				resizes += s.ResizesPerJob / 4
			}
			must.Eq(t, r.jct, math.Round(jct))
			must.Eq(t, r.makespan, math.Round(makespan))
			must.Eq(t, r.gpuHours, math.Round(hours))
			must.Eq(t, fmt.Sprintf("%.2f", r.resizes), fmt.Sprintf("%.2f", resizes))
		})
	}
}

// perJob runs the reference replay. For each policy and workload it prints each job's
// completion time, attained service and number of starts, with all digits.
const perJob = `
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("replay", sys.argv[1])
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
seen = []
class Watched(m.Job):
    def __init__(self, row):
        super().__init__(row)
        seen.append(self)
m.Job = Watched
out = {}
for name in sys.argv[2:]:
    for w in (1, 2, 3, 4):
        seen.clear()
        m.run(name, w)
        out["%s/%d" % (name, w)] = {j.name: [repr(j.done), repr(j.att), j.restarts] for j in seen}
json.dump(out, sys.stdout)
`

// TestTicks_SameAsReference compares every job with the reference replay, to
// the last digit.
func TestTicks_SameAsReference(t *testing.T) {
	reference := shared(t, "tools", "replay.py")
	if testing.Short() {
		t.Skip("runs the reference implementation, which takes a while")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to run the reference with")
	}
	script := filepath.Join(t.TempDir(), "perjob.py")
	must.NoError(t, os.WriteFile(script, []byte(perJob), 0o600))
	args := []string{"-B", script, reference} // -B: leave no files next to the reference
	for name := range rules {
		args = append(args, name)
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	must.NoError(t, err, must.Sprint(stderr.String()))
	var want map[string]map[string][3]any
	must.NoError(t, json.Unmarshal(raw, &want))

	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			for w := 1; w <= 4; w++ {
				jobs := want[fmt.Sprintf("%s/%d", name, w)]
				res := runTicks(t, r, w)
				must.Eq(t, len(jobs), len(res.Jobs))
				for _, j := range res.Jobs {
					ref, ok := jobs[j.ID]
					must.True(t, ok, must.Sprint("no job ", j.ID))
					must.Eq(t, ref[0].(string), python3Float(j.Done), must.Sprintf("workload %d, job %s: completion", w, j.ID))
					must.Eq(t, ref[1].(string), python3Float(j.Attained), must.Sprintf("workload %d, job %s: attained service", w, j.ID))
					must.Eq(t, max(0, int(ref[2].(float64))), j.Resizes, must.Sprintf("workload %d, job %s: resizes", w, j.ID))
				}
			}
		})
	}
}

// python3Float returns a number as Python writes it: the shortest digits that give the same
// number again.
func python3Float(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
