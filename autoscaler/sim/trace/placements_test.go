// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

const head = "application,batch_size,placement,gpus,nodes,step_time_s\n"

// jobOf returns a job of an application with the given step times.
func jobOf(t testing.TB, file, app string, batch int) *trace.Job {
	t.Helper()
	p, err := trace.ReadPlacements(strings.NewReader(file), "p.csv")
	must.NoError(t, err)
	curve, err := trace.NewCurve([]float64{10, 5, 4, 3, 2.5, 2})
	must.NoError(t, err)
	tr := &trace.Trace{Name: "t", Jobs: []trace.Job{{ID: "j", App: app, Batch: batch, Curve: curve}}}
	must.NoError(t, p.Apply(tr))
	return &tr.Jobs[0]
}

func TestStepTimeOn(t *testing.T) {
	file := head +
		"bert,8,1,1,1,10\nbert,8,2,2,1,4\nbert,8,1+1,2,2,6\n" +
		"bert,8,4,4,1,3\nbert,8,2+1+1,4,3,5\nbert,8,2+2,4,2,5.5\n" +
		"bert,16,1,1,1,20\n"
	for name, tc := range map[string]struct {
		on   []int
		want float64
	}{
		"as measured":                      {[]int{2}, 4},
		"in any order of the nodes":        {[]int{1, 2, 1}, 5},
		"more spread is not always slower": {[]int{2, 2}, 5.5},
		"never measured, as many nodes":    {[]int{3, 1}, 5.5},
		"never measured, nearest number":   {[]int{1, 1, 1, 1}, 5},
		// The nearest measured size is 4. Of its placements, 2+1+1 has nodes per GPU
		// nearest to 4 nodes of 6 GPUs: 5/3 of the time of 4 on one node.
		"a size never measured": {[]int{2, 2, 1, 1}, 2 * 5.0 / 3},
		"no workers":            {nil, math.Inf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			j := jobOf(t, file, "bert", 8)
			must.Eq(t, tc.want, j.StepTimeOn(tc.on))
		})
	}
	t.Run("workers of two GPUs", func(t *testing.T) {
		j := jobOf(t, file, "bert", 8)
		j.PerWorker = 2
		must.Eq(t, 5.5, j.StepTimeOn([]int{1, 1}))
	})
	t.Run("the smallest batch size where the trace has none", func(t *testing.T) {
		must.Eq(t, 10, jobOf(t, file, "bert", 0).StepTimeOn([]int{1}))
	})
}

func TestApply(t *testing.T) {
	p, err := trace.ReadPlacements(strings.NewReader(head+"bert,8,1+1,2,2,6\n"), "p.csv")
	must.NoError(t, err)
	curve, err := trace.NewCurve([]float64{10, 5})
	must.NoError(t, err)
	tr := &trace.Trace{Name: "t", Jobs: []trace.Job{
		{ID: "a", App: "bert", Batch: 8, Curve: curve},
		{ID: "b", App: "bert", Batch: 16, Curve: curve},
		{ID: "c", App: "ncf", Batch: 8, Curve: curve},
	}}
	must.NoError(t, p.Apply(tr))
	must.Eq(t, 6, tr.Jobs[0].StepTimeOn([]int{1, 1}))
	must.Eq(t, 5, tr.Jobs[1].StepTimeOn([]int{1, 1}))
	must.Eq(t, 5, tr.Jobs[2].StepTimeOn([]int{1, 1}))

	tr.Jobs = tr.Jobs[1:]
	must.EqError(t, p.Apply(tr), "p.csv: no application and batch size in it is one of t")
}

func TestReadPlacements_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"empty":             {"", "the file is empty"},
		"column":            {"application,batch_size,placement\n", "p.csv:1: step_time_s: this column is missing"},
		"nothing below":     {head, "p.csv:1: no placements below the header"},
		"no application":    {head + ",8,1,1,1,3\n", "p.csv:2:1: application: want the name"},
		"batch":             {head + "bert,small,1,1,1,3\n", "p.csv:2:6: batch_size: want a whole number from 1"},
		"placement":         {head + "bert,8,1,1,1,3\nbert,8,2x2,4,2,3\n", `p.csv:3:8: placement: want GPUs by node such as 2+1+1, got "2x2"`},
		"empty node":        {head + "bert,8,2+0,2,2,3\n", "p.csv:2:8: placement: want GPUs by node"},
		"too many":          {head + "bert,8,99999+99999,199998,2,3\n", "p.csv:2:8: placement: want at most 131072 GPUs"},
		"GPUs":              {head + "bert,8,2+1,4,2,3\n", "p.csv:2:12: gpus: placement 2+1 has 3 GPUs"},
		"nodes":             {head + "bert,8,2+1,3,1,3\n", "p.csv:2:14: nodes: placement 2+1 has 2 nodes"},
		"no time":           {head + "bert,8,2+1,3,2,0\n", "p.csv:2:16: step_time_s: want more than 0 seconds"},
		"not a number":      {head + "bert,8,2+1,3,2,NaN\n", "p.csv:2:16: step_time_s: want a number from 0"},
		"twice":             {head + "bert,8,2+1,3,2,3\nbert,8,1+2,3,2,3\n", "p.csv:3:8: placement: 2+1 of bert with batch size 8 is listed twice"},
		"a field too few":   {head + "bert,8,1,1,1\n", "p.csv:2:1: wrong number of fields"},
		"the same in quote": {head + "bert,8,\"1\n", "p.csv:2:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := trace.ReadPlacements(strings.NewReader(tc.file), "p.csv")
			must.ErrorContains(t, err, tc.want)
		})
	}
}

// FuzzReadPlacements passes any bytes to the reader. It either fails, or every placement of
// a job of its first application has a step time above 0.
func FuzzReadPlacements(f *testing.F) {
	f.Add(head+"bert,8,1,1,1,10\nbert,8,2+1,3,2,4\n", 3, 1)
	f.Add("step_time_s,placement,batch_size,application\n1e-9,131072,1,a\n", 70000, 70000)
	f.Add(head+"bert,8,1+1+1+1+1,,,1e300\n", 0, -4)
	f.Fuzz(func(t *testing.T, text string, a, b int) {
		p, err := trace.ReadPlacements(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		curve, err := trace.NewCurve([]float64{1})
		must.NoError(t, err)
		tr := &trace.Trace{Name: "t"}
		for _, line := range strings.Split(text, "\n") {
			for _, app := range strings.Split(line, ",") {
				tr.Jobs = append(tr.Jobs, trace.Job{ID: "j", App: strings.TrimSpace(app), Curve: curve})
			}
		}
		if p.Apply(tr) != nil {
			return
		}
		on := slices.DeleteFunc([]int{a, b}, func(n int) bool { return n < 1 || n > 1<<17 })
		for i := range tr.Jobs {
			must.Greater(t, 0, tr.Jobs[i].StepTimeOn(on))
		}
	})
}
