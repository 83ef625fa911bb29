// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

var t0 = time.Unix(1_800_000_000, 0)

// status is an answer of the driver's agents.
const status = `{"job":"train","generation":4,"size":4,"step":1200,"samples":76800,"epoch":1.5,"total_steps":9000,"loss":0.4,
 "step_seconds":{"2":{"mean":0.5,"n":40},"4":{"mean":0.3,"n":20},"3":{"mean":0.4,"n":1},"x":{"mean":1,"n":1},"8":{"mean":-1,"n":1}},
 "resizes":[{"from":0,"to":2,"cause":"start","gap_seconds":9,"time":100},
            {"from":2,"to":4,"cause":"resize","gap_seconds":0.25,"lost_steps":0,"time":200},
            {"from":4,"to":2,"cause":"failure","gap_seconds":3,"lost_steps":7,"time":300}],"complete":false}`

func progress(t *testing.T, text string) *cluster.Progress {
	var p cluster.Progress
	must.NoError(t, json.Unmarshal([]byte(text), &p))
	return &p
}

func TestRecord_Learn(t *testing.T) {
	var r Record
	news := r.learn(progress(t, status), 2, t0)
	must.Len(t, 2, news)
	must.Eq(t, []Gap{{2, 4, 0.25, 0}, {4, 2, 3, 7}}, r.Gaps)
	must.Eq(t, 7, r.Lost)
	must.Eq(t, 1200, r.Done)
	must.Eq(t, 9000, r.Total)
	// Two slots a worker: sizes 2 and 4 are 1 and 2 workers, 3 is neither.
	curve := policy.NewCurve(r.points()...)
	must.True(t, curve.Known(1))
	must.Eq(t, 0.3, curve.Time(2))
	must.Len(t, 2, r.points())

	must.SliceEmpty(t, r.learn(progress(t, status), 2, t0), must.Sprint("the same resizes were counted twice"))
	must.Len(t, 1, r.learn(progress(t, strings.ReplaceAll(status, `"time":300`, `"time":400`)), 2, t0))
}

// TestRecord_LearnSamples has ranks with a batch of 10 each: a step takes as
// long on four ranks as on two, and does twice as much.
func TestRecord_LearnSamples(t *testing.T) {
	var r Record
	at := func(size int, step, samples, total float64, times map[string]cluster.StepTime) {
		r.learn(&cluster.Progress{Size: size, Step: step, Samples: samples, TotalSteps: total, StepSeconds: times}, 1, t0)
	}
	at(2, 5, 100, 1000, map[string]cluster.StepTime{"2": {Mean: 0.5, N: 4}})
	must.Eq(t, 5, r.Done, must.Sprint("what a step takes is not known yet"))
	times := map[string]cluster.StepTime{"2": {Mean: 0.5, N: 9, Samples: 20}}
	at(2, 10, 200, 1000, times)
	must.Eq(t, 10, r.Done)
	must.Eq(t, 1000, r.Total)

	times["4"] = cluster.StepTime{Mean: 0.5, N: 1} // the first steps are not counted
	at(4, 12, 280, 505, times)
	must.Len(t, 1, r.points())
	must.Eq(t, 14, r.Done)
	must.Eq(t, 1000, r.Total)
	times["4"] = cluster.StepTime{Mean: 5, N: 3, Samples: 40}
	at(4, 14, 360, 505, times)
	must.Len(t, 1, r.points(), must.Sprint("three steps are no measurement"))
	times["4"] = cluster.StepTime{Mean: 0.5, N: 9, Samples: 40}
	at(4, 20, 600, 505, times)
	must.Eq(t, 30, r.Done)
	must.Eq(t, 1000, r.Total, must.Sprint("485 steps of 40 samples are left"))
	curve := policy.NewCurve(r.points()...)
	must.Eq(t, 0.5, curve.Time(2))
	must.Eq(t, 0.25, curve.Time(4))
}

func TestRecord_LearnIsBounded(t *testing.T) {
	var r Record
	for i := range 1000 {
		p := &cluster.Progress{
			Step: math.Inf(1), StepSeconds: map[string]cluster.StepTime{strconv.Itoa(i): {Mean: 1, N: 9}},
			Resizes: []cluster.Resize{{Time: float64(i + 1), GapSeconds: 1}},
		}
		r.learn(p, 1, t0)
	}
	must.Len(t, pointsLimit, r.Points)
	must.Len(t, gapsLimit, r.Gaps)
	must.Eq(t, 0, r.Done)
}

// TestRecord_LearnBelievesNoNonsense has numbers that are finite each, and whose
// sums and quotients are not.
func TestRecord_LearnBelievesNoNonsense(t *testing.T) {
	for name, answers := range map[string][]string{
		"lost steps": {`{"size":1,"resizes":[{"from":1,"to":2,"cause":"resize","time":1,"lost_steps":1e308},{"from":1,"to":2,"cause":"resize","time":2,"lost_steps":1e308}]}`},
		"gaps":       {`{"size":1,"resizes":[{"from":1,"to":2,"cause":"resize","time":1,"gap_seconds":1e308},{"from":1,"to":2,"cause":"resize","time":1e308,"gap_seconds":-1}]}`},
		"samples of a step": {
			`{"size":1,"samples":1,"step":1,"step_seconds":{"1":{"mean":1,"n":1,"samples":1e300}}}`,
			`{"size":1,"samples":1,"step":1,"step_seconds":{"1":{"mean":1,"n":1,"samples":1e-300}}}`,
		},
		"samples": {`{"size":1,"samples":1e308,"step":-1e308,"total_steps":1e308,"step_seconds":{"1":{"mean":1e308,"n":1,"samples":0.5}}}`},
		"steps":   {`{"size":1,"step":1e308,"total_steps":1.7e308,"step_seconds":{"1":{"mean":1e-308,"n":1},"2":{"mean":1e308,"n":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			l, r := NewLedger(), &Record{}
			l.Jobs[planner.JobKey{Namespace: "default", ID: "bad"}] = r
			for _, text := range answers {
				for _, g := range r.learn(progress(t, text), 1, t0) {
					must.Between(t, 0, g.LostSteps, mostSteps)
				}
			}
			_, dropped, err := l.encode()
			must.NoError(t, err)
			must.Zero(t, dropped)
			must.Between(t, 0, r.Lost, mostSteps)
			must.Between(t, 0, r.Done, mostSteps)
			must.Between(t, 0, r.Total, mostSteps)
			for _, p := range r.points() {
				must.Between(t, leastStep, p.StepTime, mostSeconds)
			}
			f := &cluster.Facts{Spec: &jobspec.Spec{}, Running: 1}
			_, err = json.Marshal(describeJob(&planner.Job{}, f, r, planner.Want{}, planner.Wait{}, t0))
			must.NoError(t, err)
		})
	}
}

func TestLedger_LeavesOutWhatCannotBeSaved(t *testing.T) {
	l := NewLedger()
	for i := range 100 {
		l.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &Record{Attained: 1}
	}
	l.Jobs[planner.JobKey{Namespace: "default", ID: "job-7"}].Lost = math.Inf(1)
	texts, dropped, err := l.encode()
	must.NoError(t, err)
	must.Eq(t, 1, dropped)
	m, lost := decodeLedger(texts)
	must.NoError(t, lost)
	must.MapLen(t, 99, m.Jobs)
}

func facts(version, changed, completed uint64) *cluster.Facts {
	return &cluster.Facts{Batch: true, Version: version, Changed: changed, Completed: completed, Spec: &jobspec.Spec{}, Slots: 1}
}

// TestRecord_Freeze follows a job through a completion and a new life.
func TestRecord_Freeze(t *testing.T) {
	r := &Record{LastIndex: 50}
	r.freeze(facts(3, 50, 0), t0)
	must.False(t, r.Frozen)
	r.freeze(facts(3, 50, 60), t0)
	must.True(t, r.Frozen)

	t.Log("our own write, which Nomad took at the same time, is no new life")
	r.LastIndex = 61
	r.freeze(facts(4, 61, 60), t0)
	must.True(t, r.Frozen)

	t.Log("a registration is")
	again := facts(5, 70, 60)
	again.Submitted = t0.Add(59 * time.Minute)
	r.freeze(again, t0.Add(time.Hour))
	must.False(t, r.Frozen)
	must.Eq(t, t0.Add(time.Hour), r.FirstSeen)
	must.Eq(t, t0.Add(59*time.Minute), r.Submitted)
	r.freeze(facts(5, 70, 60), t0)
	must.False(t, r.Frozen, must.Sprint("an old completion froze the new life"))
	r.freeze(facts(5, 70, 80), t0)
	must.True(t, r.Frozen)
}

func TestRecord_FreezeNeverForServices(t *testing.T) {
	r, f := &Record{}, facts(1, 1, 9)
	f.Batch = false
	r.freeze(f, t0)
	must.False(t, r.Frozen)
}

func TestLedger_SavesAndLoads(t *testing.T) {
	l := NewLedger()
	for i := range 500 {
		k := planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}
		l.Jobs[k] = &Record{Created: uint64(i), FirstSeen: t0, Attained: float64(i), Counts: map[string]int{"w": i}}
	}
	l.States["gpu"] = []byte("state")
	texts, dropped, err := l.encode()
	must.NoError(t, err)
	must.Eq(t, 0, dropped)
	again, _, err := l.encode()
	must.NoError(t, err)
	must.Eq(t, texts, again, must.Sprint("nothing changed, and yet all would be written"))

	m, lost := decodeLedger(texts)
	must.NoError(t, lost)
	must.MapLen(t, 500, m.Jobs)
	must.Eq(t, "state", string(m.States["gpu"]))
	k := planner.JobKey{Namespace: "default", ID: "job-7"}
	must.Eq(t, 7, m.Jobs[k].Attained)
	must.True(t, m.Jobs[k].FirstSeen.Equal(t0))
}

func TestLedger_TenThousandJobsFit(t *testing.T) {
	l := NewLedger()
	for i := range 10_000 {
		r := &Record{Created: uint64(i) * 7919, FirstSeen: t0.Add(time.Duration(i) * time.Second), Attained: float64(i) * math.Pi, RunTime: float64(i) * math.E, Counts: map[string]int{"workers": i % 16}}
		for n := range 4 {
			r.Points = append(r.Points, Measured{Point: policy.Point{Size: n + 1, StepTime: 1 / float64(i+n+1), Samples: i}, At: r.FirstSeen.Add(time.Duration(n) * time.Minute), Heard: i * 7, Trials: 1 + n})
		}
		l.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprintf("training-job-%d", i)}] = r
	}
	texts, dropped, err := l.encode()
	must.NoError(t, err)
	must.Eq(t, 0, dropped)
	for _, text := range texts {
		must.LessEq(t, shardSize, len(text))
	}
}

// TestLedger_StatesTakeNoJobsRoom has policies ask for more and more to be
// given back: what is too much is lost, and no job is.
func TestLedger_StatesTakeNoJobsRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for _, size := range []int{0, 1, 40 << 10, 100 << 10, 1 << 20, 4 << 20} {
		l := NewLedger()
		for i := range 500 {
			l.Jobs[planner.JobKey{Namespace: "default", ID: fmt.Sprint("job-", i)}] = &Record{Attained: float64(i)}
		}
		l.States["gpu"] = random(size)
		texts, dropped, err := l.encode()
		must.NoError(t, err)
		for _, text := range texts {
			must.LessEq(t, shardSize, len(text))
		}
		m, lost := decodeLedger(texts)
		must.NoError(t, lost)
		must.MapLen(t, 500, m.Jobs)
		if size <= 1<<20 {
			must.Zero(t, dropped)
			must.Eq(t, l.States["gpu"], m.States["gpu"])
		} else {
			must.Eq(t, 1, dropped)
			must.MapEmpty(t, m.States)
		}
	}
}

func TestLedger_GarbageIsAnError(t *testing.T) {
	for _, text := range []string{"!", "AAAA", "H4sIAAAAAAAA"} {
		must.Error(t, NewLedger().decode(text))
	}
}

// TestCheck has one decision per line that must not be obeyed.
func TestCheck(t *testing.T) {
	s := &policy.Snapshot{
		Nodes: []policy.Node{{GPUs: 4}},
		Jobs:  []policy.Job{{ID: "a", Min: 2, Max: 4, Count: 2}, {ID: "b", Min: 1, Max: 4, PerWorker: 2}},
	}
	give := func(pairs ...any) (d policy.Decision) {
		for i := 0; i < len(pairs); i += 2 {
			d.Allocations = append(d.Allocations, policy.Allocation{Job: pairs[i].(string), Count: pairs[i+1].(int)})
		}
		return d
	}
	for name, tc := range map[string]struct {
		d    policy.Decision
		want string
	}{
		"good":            {give("a", 2, "b", 1), ""},
		"none":            {give("a", 0, "b", 0), ""},
		"a job missing":   {give("a", 2), "it answered for 1 jobs of 2"},
		"wrong order":     {give("b", 1, "a", 2), "answer 0 is about job b and not a"},
		"below minimum":   {give("a", 1, "b", 1), "1 workers for job a, which takes 2 to 4"},
		"above maximum":   {give("a", 5, "b", 0), "5 workers for job a"},
		"negative":        {give("a", -1, "b", 0), "-1 workers"},
		"beyond capacity": {give("a", 4, "b", 1), "6 slots given out of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(s, tc.d)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}
