// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// Two phases at one and two GPUs. By the statistics, the noise scale (variance by squared norm)
// is 8 in the first phase and 24 in the second, and a unit of progress is a step of 8 samples.
//
//	gain of batch 8 is 1; of 16, (8+1)/(8/2+1) = 1.8, then (24+1)/(24/2+1) = 25/13
const (
	phasesCSV = `application,phase,end,gpus,step_time_s,batch,accum
net,0,100,1,1,8,0
net,0,100,2,0.8,8,0
net,1,300,1,0.78,16,1
net,1,300,2,0.52,16,0
`
	gradientsCSV = `application,batch_size,epoch,progress,grad_sqr,grad_var
net,8,0,100,1,8
net,8,1,300,1,24
net,16,0,100,1,8
net,16,1,300,1,24
`
)

// files writes files to a new directory and returns their paths.
func files(t *testing.T, texts ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		path := filepath.Join(dir, fmt.Sprint(i, ".csv"))
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	return paths
}

func TestPhases_Goodput(t *testing.T) {
	p, err := OpenPhases(files(t, phasesCSV)[0], "")
	must.NoError(t, err)
	g := p.apps["net"]
	must.Eq(t, 300, g.Length())
	must.Eq(t, 100*0.8+200*0.52, g.Time(2))
	must.Eq(t, 2, g.Phases[1].Curve.Most())
	must.True(t, g.Misjudged(5) == g, must.Sprint("nothing is known of the noise"))
}

func TestPhases_Misjudged(t *testing.T) {
	paths := files(t, phasesCSV, gradientsCSV)
	p, err := OpenPhases(paths[0], paths[1])
	must.NoError(t, err)
	g := p.apps["net"]
	must.True(t, g.Misjudged(1) == g)
	// A step of 16 samples takes 0.78 × 25/13 = 1.5 s on one GPU and 1 s on two; one of 8
	// samples takes 1 s and 0.8 s. In the second phase, jobs choose by the noise of the first.
	for name, tc := range map[string]struct {
		wrong      float64
		real, seen [2]float64
	}{
		// 1.8 / 1.5 is above 1 / 1, and 1.8 / 1 above 1 / 0.8.
		"nearly right": {1 + 1e-12, [2]float64{0.78, 0.52}, [2]float64{0.78, 0.52}},
		// Gain 1.8 falls to (0.8+1)/(0.4+1) = 9/7: 0.857 is below 1, and 1.286 above 1.25.
		"a tenth": {0.1, [2]float64{1, 0.52}, [2]float64{1, 2.2 / 3.4}},
		// It falls to (0.08+1)/(0.04+1) = 1.038.
		"a hundredth": {0.01, [2]float64{1, 0.8}, [2]float64{1, 0.8}},
	} {
		t.Run(name, func(t *testing.T) {
			m := g.Misjudged(tc.wrong)
			must.Eq(t, g.Phases[0], m.Phases[0], must.Sprint("nothing is measured yet"))
			for i := range 2 {
				must.InDelta(t, tc.real[i], m.Phases[1].Curve.StepTime(i+1), 1e-9)
				must.InDelta(t, tc.seen[i], m.Phases[1].Seen.StepTime(i+1), 1e-9)
			}
		})
	}
	must.Eq(t, 0.78, g.Phases[1].Curve.StepTime(1), must.Sprint("it has not changed"))
}

func TestPhases_Apply(t *testing.T) {
	p, err := OpenPhases(files(t, phasesCSV)[0], "")
	must.NoError(t, err)
	const jobs = "name,submit_s,application,np,batch_size,max_replicas,steps\n"
	tr, err := Read(strings.NewReader(jobs+"a,0,net,1,32,1,7\n"), "jobs.csv", Options{Phases: p})
	must.NoError(t, err, must.Sprint("it needs no step times"))
	j := tr.Jobs[0]
	must.Eq(t, []float64{300, 2, 1}, []float64{j.Steps, float64(j.Max), float64(j.Preferred)})
	must.Eq(t, 100*0.8+200*0.52, j.Duration(2))

	_, err = Read(strings.NewReader(jobs+"a,0,other,1,32,1,7\n"), "jobs.csv", Options{Phases: p})
	must.ErrorContains(t, err, "no step times for other")
	tr = &Trace{Name: "wide", Jobs: []Job{{ID: "a", App: "net", PerWorker: 2}}}
	must.ErrorContains(t, p.Apply(tr), "no application in it is one of wide")
	must.Nil(t, tr.Jobs[0].Goodput)
}

func TestPhases_Mistakes(t *testing.T) {
	head, rows, _ := strings.Cut(phasesCSV, "\n")
	for name, tc := range map[string]struct{ phases, gradients, want string }{
		"empty":             {head + "\n", "", "no phases below the header"},
		"no name":           {head + "\n,0,1,1,1,8,0\n", "", ":2:1: application: want the name"},
		"no time":           {head + "\nnet,0,1,1,0,8,0\n", "", "step_time_s: want more than 0"},
		"no end":            {head + "\nnet,0,0,1,1,8,0\n", "", "end: a phase ends after the one before it"},
		"ends before":       {head + "\n" + rows + "net,2,300,1,1,8,0\n", "", ":6:7: end: a phase ends after"},
		"two ends":          {head + "\nnet,0,1,1,1,8,0\nnet,0,2,2,1,8,0\n", "", "phase 0 of net has two ends"},
		"a phase missing":   {head + "\n" + rows + "net,3,400,1,1,8,0\n", "", "stand in order without gaps"},
		"a size missing":    {head + "\nnet,0,1,2,1,8,0\n", "", "stand in order without gaps"},
		"fewer sizes":       {head + "\n" + rows + "net,2,400,1,1,8,0\n", "", "net: phase 2 has 1 sizes, phase 0 has 2"},
		"no batch":          {"application,phase,end,gpus,step_time_s\nnet,0,1,1,1\n", gradientsCSV, "batch: this column is missing"},
		"no statistics":     {phasesCSV, "application,batch_size,epoch,grad_sqr,grad_var\n", "net: gradient statistics of 0 epochs for 2 phases"},
		"no variance":       {phasesCSV, "application,batch_size,epoch,grad_sqr,grad_var\nnet,8,0,1,0\n", "grad_var: want a variance above 0"},
		"epoch missing":     {phasesCSV, "application,batch_size,epoch,grad_sqr,grad_var\nnet,8,1,1,1\n", "epochs of net stand in order"},
		"statistics twice":  {phasesCSV, gradientsCSV + "net,8,0,100,1,8\n", "is there twice"},
		"missing gradients": {phasesCSV, "-", "gradient statistics: open"},
	} {
		t.Run(name, func(t *testing.T) {
			paths := files(t, tc.phases, tc.gradients)
			switch tc.gradients {
			case "":
				paths[1] = ""
			case "-":
				paths[1] += "x"
			}
			_, err := OpenPhases(paths[0], paths[1])
			must.ErrorContains(t, err, tc.want)
		})
	}
	_, err := OpenPhases("/nowhere.csv", "")
	must.ErrorContains(t, err, "phases: open /nowhere.csv")
}

// TestPhases_StepTimesOfPollux checks the gradient statistics against the phases of the Pollux
// workloads. The time of a step at one batch size and accumulation is the same in all phases,
// although the time of a unit of progress differs.
func TestPhases_StepTimesOfPollux(t *testing.T) {
	dir := os.Getenv("KOLO_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared")
	}
	dir = filepath.Join(dir, "data", "pollux")
	if _, err := os.Stat(filepath.Join(dir, "phases.csv")); err != nil {
		t.Skipf("no reference data: set KOLO_SHARED (%v)", err)
	}
	p, err := OpenPhases(filepath.Join(dir, "phases.csv"), filepath.Join(dir, "gradients.csv"))
	must.NoError(t, err)
	f, err := os.Open(filepath.Join(dir, "phases.csv"))
	must.NoError(t, err)
	defer f.Close()
	tab, err := newTable(f, "phases.csv")
	must.NoError(t, err)
	must.NoError(t, tab.each(func() error {
		g := p.apps[tab.text("application")]
		batch, accum := tab.whole("batch", 1), tab.whole("accum", 0)
		step := tab.float("step_time_s", 0) * g.gain(tab.whole("phase", 0), batch, 1)
		for _, c := range g.configs[tab.whole("gpus", 1)] {
			if c.batch == batch && c.accum == accum && math.Abs(step/c.step-1) > 1e-5 {
				return fmt.Errorf("%g s, and %g s in another phase", step, c.step)
			}
		}
		return nil
	}))
}
