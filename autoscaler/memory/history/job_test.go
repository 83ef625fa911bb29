// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

var t0 = time.Unix(1_800_000_000, 0)

// status is an answer of the driver's agents.
const status = `{"job":"train","generation":4,"size":4,"step":1200,"samples":76800,"epoch":1.5,"total_steps":9000,"loss":0.4,
 "step_seconds":{"2":{"mean":0.5,"n":40},"4":{"mean":0.3,"n":20},"3":{"mean":0.4,"n":1},"7":{"mean":0.4,"n":30},"x":{"mean":1,"n":1},"8":{"mean":-1,"n":1}},
 "resizes":[{"from":0,"to":2,"cause":"start","gap_seconds":9,"time":100},
            {"from":2,"to":4,"cause":"resize","gap_seconds":0.25,"lost_steps":0,"time":200},
            {"from":4,"to":2,"cause":"failure","gap_seconds":3,"lost_steps":7,"time":300}],"complete":false}`

// long has a job spend long enough at the sizes that it reports.
func (j *Job) long(p *Progress, slots int) {
	j.Had = map[int]float64{}
	for text := range p.StepSeconds {
		if n, err := strconv.Atoi(text); err == nil {
			j.Had[n/slots] = maxSeconds
		}
	}
}

// learn has a job without a kind learn, after long at all sizes that it reports.
func (j *Job) learn(p *Progress, slots int, now time.Time) []Resize {
	j.long(p, slots)
	resizes, _ := New().Learn(j, "", p, slots, now)
	return resizes
}

func progress(t *testing.T, text string) *Progress {
	var p Progress
	must.NoError(t, json.Unmarshal([]byte(text), &p))
	return &p
}

func f(v float64) *float64 { return &v }

// If the workers do not know a gap or the number of lost steps, these stay unknown and are
// not 0.
func TestJob_LearnKeepsTheUnknown(t *testing.T) {
	var r Job
	report := `{"size":4,"resizes":[{"from":2,"to":4,"cause":"resize","gap_seconds":0.25,"lost_steps":1,"time":200},
		{"from":4,"to":2,"cause":"resize","time":300}]}`
	must.Len(t, 2, r.learn(progress(t, report), 2, t0))
	must.Eq(t, []Gap{{From: 2, To: 4, Seconds: f(0.25), Lost: f(1)}, {From: 4, To: 2}}, r.Gaps)
	must.Eq(t, []float64{0.25}, KnownSeconds(r.Gaps))
	must.Eq(t, 1, r.Lost)
	must.True(t, r.Uncounted)
	text, err := json.Marshal(r.Gaps)
	must.NoError(t, err)
	must.Eq(t, `[{"from":2,"to":4,"seconds":0.25,"lost":1},{"from":4,"to":2}]`, string(text))
}

func TestJob_Learn(t *testing.T) {
	var r Job
	news := r.learn(progress(t, status), 2, t0)
	must.Len(t, 2, news)
	must.Eq(t, []Gap{{2, 4, f(0.25), f(0)}, {4, 2, f(3), f(7)}}, r.Gaps)
	must.Eq(t, 7, r.Lost)
	must.Eq(t, 1200, r.Done)
	must.Eq(t, 9000, r.Total)
	// Two slots a worker: sizes 2 and 4 are 1 and 2 workers, 3 is neither.
	curve := speedup.NewCurve(r.Points()...)
	must.True(t, curve.Known(1))
	must.Eq(t, 0.3, curve.Time(2))
	must.Len(t, 2, r.Points())

	must.SliceEmpty(t, r.learn(progress(t, status), 2, t0), must.Sprint("the same resizes were counted twice"))
	must.Len(t, 1, r.learn(progress(t, strings.ReplaceAll(status, `"time":300`, `"time":400`)), 2, t0))
}

// TestJob_LearnSamples has ranks with a batch of 10 each. A step takes as long on four
// ranks as on two, and does twice as much.
func TestJob_LearnSamples(t *testing.T) {
	var r Job
	at := func(size int, step, samples, total float64, times map[string]StepTime) {
		r.learn(&Progress{Size: size, Step: step, Samples: samples, TotalSteps: total, StepSeconds: times}, 1, t0)
	}
	at(2, 5, 100, 1000, map[string]StepTime{"2": {Mean: 0.5, N: 4}})
	must.Eq(t, 5, r.Done, must.Sprint("what a step takes is not known yet"))
	times := map[string]StepTime{"2": {Mean: 0.5, N: 9, Samples: 20}}
	at(2, 10, 200, 1000, times)
	must.Eq(t, 10, r.Done)
	must.Eq(t, 1000, r.Total)

	times["4"] = StepTime{Mean: 0.5, N: 1} // the first steps are not counted
	at(4, 12, 280, 505, times)
	must.Len(t, 1, r.Points())
	must.Eq(t, 14, r.Done)
	must.Eq(t, 1000, r.Total)
	times["4"] = StepTime{Mean: 5, N: 3, Samples: 40}
	at(4, 14, 360, 505, times)
	must.Len(t, 1, r.Points(), must.Sprint("three steps are no measurement"))
	times["4"] = StepTime{Mean: 0.5, N: 9, Samples: 40}
	at(4, 20, 600, 505, times)
	must.Eq(t, 30, r.Done)
	must.Eq(t, 1000, r.Total, must.Sprint("485 steps of 40 samples are left"))
	curve := speedup.NewCurve(r.Points()...)
	must.Eq(t, 0.5, curve.Time(2))
	must.Eq(t, 0.25, curve.Time(4))
}

func TestJob_LearnIsBounded(t *testing.T) {
	var r Job
	for i := range 1000 {
		p := &Progress{
			Step: math.Inf(1), StepSeconds: map[string]StepTime{strconv.Itoa(i): {Mean: 1, N: 9}},
			Resizes: []Resize{{Time: float64(i + 1), GapSeconds: f(1)}},
		}
		r.learn(p, 1, t0)
	}
	must.Len(t, measurementsLimit, r.Measurements)
	must.Len(t, gapsLimit, r.Gaps)
	must.Eq(t, 0, r.Done)
}

// nonsense returns answers of hostile trainings, by what is wrong with them.
func nonsense(t *testing.T) (out map[string][]string) {
	text, err := os.ReadFile("testdata/nonsense.json")
	must.NoError(t, err)
	must.NoError(t, json.Unmarshal(text, &out))
	return out
}

// TestJob_LearnBelievesNoNonsense has finite numbers with sums and quotients that are not
// finite.
func TestJob_LearnBelievesNoNonsense(t *testing.T) {
	for name, answers := range nonsense(t) {
		t.Run(name, func(t *testing.T) {
			r := &Job{}
			for _, text := range answers {
				for _, g := range r.learn(progress(t, text), 1, t0) {
					if g.LostSteps != nil {
						must.Between(t, 0, *g.LostSteps, maxSteps)
					}
				}
			}
			_, err := json.Marshal(r)
			must.NoError(t, err)
			must.Between(t, 0, r.Lost, maxSteps)
			must.Between(t, 0, r.Done, maxSteps)
			must.Between(t, 0, r.Total, maxSteps)
			for _, p := range r.Points() {
				must.Between(t, minStepTime, p.StepTime, maxSeconds)
			}
		})
	}
}

func observed(version, changed, completed uint64) *Observation {
	return &Observation{Batch: true, Version: version, Changed: changed, Completed: completed, Slots: 1}
}

// A stopped job may run again once its user, not this autoscaler, has changed it. From then
// on, its time before the stop no longer counts.
func TestJob_Stop(t *testing.T) {
	r := &Job{LastIndex: 50, RunTime: 100}
	r.Stop(3)
	r = r.observe(observed(3, 50, 0), t0, time.Second)
	must.Eq(t, 3, r.StoppedAt)
	r.LastIndex = 61
	r = r.observe(observed(4, 61, 0), t0, time.Second)
	r.Stop(4)
	must.Eq(t, []float64{3, 0}, []float64{float64(r.StoppedAt), r.Pardoned})
	r = r.observe(observed(5, 70, 0), t0, time.Second)
	must.Eq(t, []float64{0, 100}, []float64{float64(r.StoppedAt), r.Pardoned})
}

// TestJob_Freeze follows a job through a completion and a new life.
func TestJob_Freeze(t *testing.T) {
	r := &Job{LastIndex: 50}
	r = r.freeze(observed(3, 50, 0), t0)
	must.False(t, r.Frozen)
	r = r.freeze(observed(3, 50, 60), t0)
	must.True(t, r.Frozen)

	t.Log("our own write, which Nomad took at the same time, is no new life")
	r.LastIndex = 61
	r = r.freeze(observed(4, 61, 60), t0)
	must.True(t, r.Frozen)

	t.Log("a registration is")
	again := observed(5, 70, 60)
	again.Submitted = t0.Add(59 * time.Minute)
	r = r.freeze(again, t0.Add(time.Hour))
	must.False(t, r.Frozen)
	must.Eq(t, t0.Add(time.Hour), r.FirstSeen)
	must.Eq(t, t0.Add(59*time.Minute), r.Submitted)
	r = r.freeze(observed(5, 70, 60), t0)
	must.False(t, r.Frozen, must.Sprint("an old completion froze the new life"))
	r = r.freeze(observed(5, 70, 80), t0)
	must.True(t, r.Frozen)
}

func TestJob_FreezeNeverForServices(t *testing.T) {
	r, f := &Job{}, observed(1, 1, 9)
	f.Batch = false
	r.freeze(f, t0)
	must.False(t, r.Frozen)
}

// TestJob_CostOfAResize has a training report resizes that no autoscaler wrote, and gaps
// longer than the time since the write.
func TestJob_CostOfAResize(t *testing.T) {
	r, ring := &Job{}, 0.0
	reports := func(cause string, to int, gap float64, after time.Duration) {
		ring++
		r.learn(&Progress{Resizes: []Resize{{From: 2, To: to, Cause: cause, GapSeconds: &gap, Time: ring}}}, 2, t0.Add(after))
	}
	reports("resize", 8, 3000, 0)
	must.SliceEmpty(t, r.Costs, must.Sprint("written by no one"))
	must.Len(t, 1, r.Gaps)
	r.Wrote(4, t0)
	reports("failure", 8, 5, time.Minute)
	reports("resize", 6, 5, time.Minute)
	reports("resize", 8, 3000, time.Minute)
	must.SliceEmpty(t, r.Costs, must.Sprint("no resize, another size, longer than since it was written"))
	reports("resize", 8, 0.25, time.Minute)
	reports("resize", 8, 0.5, time.Minute)
	must.Eq(t, []float64{0.25}, r.Costs, must.Sprint("each counts once"))

	t.Log("the ring may pass over one")
	r.Wrote(2, t0)
	r.Wrote(3, t0)
	reports("resize", 6, 0.75, time.Minute)
	reports("resize", 4, 9, time.Minute)
	must.Eq(t, []float64{0.25, 0.75}, r.Costs)
	for range 100 {
		r.Wrote(1, t0)
		reports("resize", 2, 1, time.Minute)
	}
	must.Len(t, gapsLimit, r.Costs)
}

// Once a job has had its minimum, it stays whole.
func TestJob_Whole(t *testing.T) {
	j := newJob(observed(1, 1, 0), t0)
	for _, tc := range []struct{ now, want bool }{{false, false}, {true, true}, {false, true}} {
		o := observed(1, 1, 0)
		o.Whole = tc.now
		j = j.observe(o, t0, 0)
		must.Eq(t, tc.want, j.Whole)
	}
}
