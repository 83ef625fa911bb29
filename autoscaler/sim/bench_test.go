// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// BenchmarkFourWorkloads simulates all four Pollux workloads with one policy, by events and
// by ticks. The time to read them is not included.
func BenchmarkFourWorkloads(b *testing.B) {
	var traces []*trace.Trace
	for w := 1; w <= 4; w++ {
		traces = append(traces, pollux(b, w))
	}
	for _, spec := range []string{"fifo", "elastic-fifo", "tiresias", "srjf", "ffdl", "afs-l", "kolo"} {
		p := parse(b, spec)
		cfg := sim.Config{
			Nodes: sim.Uniform(16, 4, ""), Policy: p,
			Info: sim.Info{Remaining: true, Curves: true}, Resize: sim.ResizeCost{Constant: 30},
		}
		b.Run("events/"+spec, func(b *testing.B) {
			b.ReportAllocs()
			start, n := cpu(b), 0
			for b.Loop() {
				for _, t := range traces {
					cfg.Trace = t
					_, err := sim.Run(b.Context(), cfg)
					must.NoError(b, err)
				}
				n++
			}
			b.ReportMetric((cpu(b)-start)/float64(n)*1000, "cpu-ms/op")
		})
		b.Run("ticks/"+spec, func(b *testing.B) {
			b.ReportAllocs()
			start, n := cpu(b), 0
			for b.Loop() {
				for _, t := range traces {
					cfg.Trace = t
					_, err := sim.RunTicks(b.Context(), cfg, 60)
					must.NoError(b, err)
				}
				n++
			}
			b.ReportMetric((cpu(b)-start)/float64(n)*1000, "cpu-ms/op")
		})
	}
}

// BenchmarkLargeTrace simulates 100,000 jobs on 10,000 GPUs.
func BenchmarkLargeTrace(b *testing.B) {
	tr := trace.Synthetic{Jobs: 100_000, GPUs: 10_000, Seed: 1}.Trace()
	for _, spec := range []string{"fifo", "elastic-fifo", "afs-l", "kolo"} {
		b.Run(spec, func(b *testing.B) {
			b.ReportAllocs()
			start, n := cpu(b), 0
			for b.Loop() {
				n++
				res, err := sim.Run(b.Context(), sim.Config{
					Trace: tr, Nodes: sim.Uniform(1250, 8, ""), Policy: parse(b, spec),
					Info: sim.Info{Remaining: true, Curves: true}, Resize: sim.ResizeCost{Constant: 1}, Interval: 60,
				})
				must.NoError(b, err)
				b.ReportMetric(float64(res.Decisions), "decisions")
			}
			b.ReportMetric((cpu(b)-start)/float64(n), "cpu-s/op")
		})
	}
}

// cpu returns the processor time this process has used, in seconds: wall-clock times mean
// little on a machine that does other work.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// timed runs the reference replay and prints the processor seconds that each policy took on
// four workloads, without the start of the interpreter.
const timed = `
import importlib.util, json, sys, time
spec = importlib.util.spec_from_file_location("replay", sys.argv[1])
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)
out = {}
for name in sys.argv[2:]:
    start = time.process_time()
    for w in (1, 2, 3, 4):
        m.run(name, w)
    out[name] = time.process_time() - start
json.dump(out, sys.stdout)
`

// BenchmarkBesideReference runs the reference replay and this simulator by the same rules
// on the same machine, one after the other, and reports the ratio. Their results are equal
// to the last digit: see TestTicks_SameAsReference.
func BenchmarkBesideReference(b *testing.B) {
	reference := shared(b, "tools", "replay.py")
	python, err := exec.LookPath("python3")
	if err != nil {
		b.Skip("no python3 to run the reference with")
	}
	script := filepath.Join(b.TempDir(), "timed.py")
	must.NoError(b, os.WriteFile(script, []byte(timed), 0o600))
	names := make([]string, 0, len(rules))
	for name := range rules {
		names = append(names, name)
	}
	slices.Sort(names)
	cmd := exec.CommandContext(b.Context(), python, append([]string{"-B", script, reference}, names...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	must.NoError(b, err, must.Sprint(stderr.String()))
	var theirs map[string]float64
	must.NoError(b, json.Unmarshal(raw, &theirs))
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			start, n := cpu(b), 0
			for b.Loop() {
				for w := 1; w <= 4; w++ {
					runTicks(b, rules[name], w) // reads the files each time, as the reference does
				}
				n++
			}
			ours := (cpu(b) - start) / float64(n)
			b.ReportMetric(theirs[name]*1000, "cpu-ms-reference/op")
			b.ReportMetric(ours*1000, "cpu-ms-ours/op")
			b.ReportMetric(theirs[name]/ours, "times-faster")
		})
	}
}
