// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace_test

import (
	"math"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

func TestSynthetic_IsValidAndSeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := trace.Synthetic{
			Jobs: rapid.IntRange(1, 300).Draw(t, "jobs"), Seed: rapid.Uint64().Draw(t, "seed"),
			Deadlines: 0.5, Tenants: 3, Load: rapid.Float64Range(0.1, 3).Draw(t, "load"),
		}
		a, b := s.Trace(), s.Trace()
		must.Len(t, s.Jobs, a.Jobs)
		seen := map[string]bool{}
		last := 0.0
		for i := range a.Jobs {
			j := &a.Jobs[i]
			must.NoError(t, j.Validate())
			must.False(t, seen[j.ID])
			seen[j.ID] = true
			must.GreaterEq(t, last, j.Submit)
			last = j.Submit
			must.Eq(t, j.Submit, b.Jobs[i].Submit)
			must.Eq(t, j.Steps, b.Jobs[i].Steps)
		}
	})
}

// TestSynthetic_OffersItsLoad checks that the work matches the requested load, within
// chance.
func TestSynthetic_OffersItsLoad(t *testing.T) {
	tr := trace.Synthetic{Jobs: 20000, GPUs: 64, Load: 0.8, Seed: 5}.Trace()
	work := 0.0
	for i := range tr.Jobs {
		work += tr.Jobs[i].Steps * tr.Jobs[i].StepTime(1)
	}
	span := tr.Jobs[len(tr.Jobs)-1].Submit
	must.Between(t, 0.68, work/(64*span), 0.85) // arrivals are slower half the time
}

func TestScale(t *testing.T) {
	tr := trace.Synthetic{Jobs: 100, Seed: 1, Deadlines: 1}.Trace()
	same, err := tr.Scale(1, 9)
	must.NoError(t, err)
	must.True(t, same == tr)
	for _, load := range []float64{0.25, 0.5, 1.5, 3.2} {
		s, err := tr.Scale(load, 9)
		must.NoError(t, err)
		must.Eq(t, int(load*100+0.5), len(s.Jobs))
		seen := map[string]bool{}
		for i := range s.Jobs {
			must.NoError(t, s.Jobs[i].Validate())
			must.False(t, seen[s.Jobs[i].ID])
			seen[s.Jobs[i].ID] = true
		}
		for i := 1; i < len(s.Jobs); i++ {
			must.LessEq(t, s.Jobs[i].Submit, s.Jobs[i-1].Submit)
		}
		again, err := tr.Scale(load, 9)
		must.NoError(t, err)
		must.Eq(t, ids(s), ids(again))
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := tr.Scale(bad, 1)
		must.Error(t, err)
	}
}

func TestPermute_KeepsJobsAndGaps(t *testing.T) {
	tr := trace.Synthetic{Jobs: 50, Seed: 1, Deadlines: 1}.Trace()
	must.True(t, tr.Permute(1) == tr)
	p := tr.Permute(2)
	must.Eq(t, ids(tr), ids(p))
	must.InDelta(t, tr.Jobs[49].Submit, p.Jobs[49].Submit, 1e-6)
	moved := 0
	for i := range p.Jobs {
		if p.Jobs[i].Submit != tr.Jobs[i].Submit {
			moved++
		}
		must.InDelta(t, tr.Jobs[i].Deadline-tr.Jobs[i].Submit, p.Jobs[i].Deadline-p.Jobs[i].Submit, 1e-6)
	}
	must.Greater(t, 25, moved)
}

func TestLimit(t *testing.T) {
	tr := trace.Synthetic{Jobs: 30, Seed: 1}.Trace()
	tr.Jobs[3].Min, tr.Jobs[3].Max, tr.Jobs[3].Preferred = 9, 9, 9
	never := tr.Limit(func(string) int { return 8 })
	must.Eq(t, []string{tr.Jobs[3].ID}, never)
	for i := range tr.Jobs {
		if i != 3 {
			must.LessEq(t, 8, tr.Jobs[i].Max)
			must.LessEq(t, tr.Jobs[i].Max, tr.Jobs[i].Preferred)
		}
	}
}

func TestInterpolate(t *testing.T) {
	c, err := trace.Interpolate(map[int]float64{2: 1, 8: 0.25, 16: 0.3}, 32)
	must.NoError(t, err)
	for n, want := range map[int]float64{1: 2, 2: 1, 4: 0.5, 8: 0.25, 16: 0.3, 32: 0.3} {
		must.InDelta(t, want, c.StepTime(n), 1e-12)
	}
	must.True(t, math.IsInf(c.StepTime(0), 1))
	_, err = trace.Interpolate(nil, 3)
	must.Error(t, err)
	_, err = trace.Interpolate(map[int]float64{0: 1}, 3)
	must.Error(t, err)
	_, err = trace.Interpolate(map[int]float64{1: -1}, 3)
	must.Error(t, err)
}

// FuzzRead passes any bytes to every reader. A reader either fails or returns a trace of
// valid jobs, and never panics.
func FuzzRead(f *testing.F) {
	f.Add("job,arrival_s,model,np,min,max,epochs,t1_est_s,speedup2\n7,20,vgg,2,1,2,50,1500,1.5\n")
	f.Add("job_id,user,vc,gpu_num,state,submit_time,duration\n2,u2,vcB,4,FAILED,2020-06-09 18:42:01,240\n")
	f.Add("jobid,submitted_time,duration,gpus\na,1,2,3\n")
	f.Add("job_id,submission_time,duration,num_gpu,deadline\nx,100,60,4,200\n")
	f.Add(kalos)
	f.Add(openb)
	f.Add(eventLog)
	f.Add(`[{"jobid":"a","submitted_time":"5","attempts":[{"start_time":"1","end_time":"2","detail":[{"gpus":["x"]}]}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, skip := range []bool{false, true} {
			tr, err := trace.Read(strings.NewReader(text), "fuzz", trace.Options{Skip: skip, MaxJobs: 100})
			if err != nil {
				continue
			}
			must.Positive(t, len(tr.Jobs))
			for i := range tr.Jobs {
				must.NoError(t, tr.Jobs[i].Validate())
			}
		}
	})
}

// A job that is elastic at one share is elastic at each larger share. All other jobs have
// one permitted size.
func TestElastic(t *testing.T) {
	tr := trace.Synthetic{Jobs: 200, Seed: 1}.Trace()
	must.True(t, tr == tr.Elastic(1))
	elastic := func(share float64) map[string]bool {
		out := map[string]bool{}
		for _, j := range tr.Elastic(share).Jobs {
			must.NoError(t, j.Validate())
			must.Eq(t, j.Preferred, max(j.Min, min(j.Max, j.Preferred)))
			if j.Min < j.Max {
				out[j.ID] = true
			}
		}
		return out
	}
	none, some, half, all := elastic(0), elastic(0.2), elastic(0.5), elastic(1)
	must.MapEmpty(t, none)
	must.Between(t, len(all)/8, len(some), len(all)/3)
	must.Between(t, len(all)/3, len(half), 2*len(all)/3)
	for id := range some {
		must.True(t, half[id] && all[id])
	}
	must.Eq(t, 200, len(tr.Jobs))
}
