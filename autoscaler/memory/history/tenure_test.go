// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// watched is a job about which Nomad and its training report every ten seconds.
type watched struct {
	*training
	h   *History
	key identity.JobKey
	now time.Time
}

func watch() *watched {
	return &watched{newTraining(), New(), identity.JobKey{Namespace: "default", ID: "a"}, t0}
}

func (w *watched) job() *Job { return w.h.Jobs[w.key] }

// nomad lets Nomad report a number of workers for a time.
func (w *watched) nomad(workers int, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(10 * time.Second) {
		w.h.Observe(w.key, &Observation{Running: workers, Slots: 1}, w.now, 10*time.Second)
	}
}

// trains runs a ring of a size for a time, while Nomad reports a number of workers.
func (w *watched) trains(ring, workers int, step float64, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.nomad(workers, 10*time.Second)
		w.training.run(ring, 10/step, step, 0)
		w.h.Learn(w.job(), "k", w.progress(ring), 1, w.now)
	}
}

func (w *watched) reports(size int, times map[int]StepTime) {
	p := &Progress{Size: size, StepSeconds: map[string]StepTime{}}
	for n, t := range times {
		p.StepSeconds[strconv.Itoa(n)] = t
	}
	w.h.Learn(w.job(), "k", p, 1, w.now)
}

// known returns the step times in force by size.
func (w *watched) known() map[int]float64 {
	out := map[int]float64{}
	for _, p := range w.job().Points() {
		out[p.Size] = p.StepTime
	}
	return out
}

func TestTenure_SizesThatAJobNeverHad(t *testing.T) {
	w := watch()
	w.nomad(1, time.Minute)
	w.reports(1, map[int]StepTime{1: {Mean: 1000, N: 4}, 20: {Mean: 1e-6, N: 1 << 20}})
	must.MapEmpty(t, w.known(), must.Sprint("4000 s in a minute, and a size that Nomad never saw"))
	must.MapEmpty(t, w.h.Kinds)
	w.reports(20, map[int]StepTime{20: {Mean: 1e-6}})
	must.MapEmpty(t, w.known(), must.Sprint("nor without a count"))
}

func TestTenure_StepsThatDoNotFit(t *testing.T) {
	w := watch()
	w.nomad(4, 10*time.Second)
	w.reports(4, map[int]StepTime{4: {Mean: 20, N: 10_000}})
	must.MapEmpty(t, w.known())
	w.trains(4, 4, 0.5, time.Minute)
	must.Eq(t, map[int]float64{4: 0.5}, w.known(), must.Sprint("honest from then on"))

	t.Log("the time that a job had is believed once")
	w.reports(4, map[int]StepTime{4: {Mean: 10, N: 1000}})
	w.reports(4, map[int]StepTime{4: {Mean: 10, N: 2000}})
	must.LessEq(t, 2, w.known()[4])
}

// TestTenure_HonestTrainings checks reports that may be true: all of them count.
func TestTenure_HonestTrainings(t *testing.T) {
	t.Log("growth, for which newcomers start while the others train on")
	w := watch()
	w.trains(2, 2, 1, 20*time.Second)
	w.trains(2, 3, 1, 10*time.Second)
	w.trains(2, 4, 1, 2*time.Minute)
	w.trains(4, 4, 0.5, time.Minute)
	w.trains(4, 2, 0.5, 30*time.Second) // the leaving ones have not committed yet
	w.trains(2, 2, 1, time.Minute)
	must.Eq(t, map[int]float64{2: 1, 4: 0.5}, w.known())
	m := w.job().Measurements
	must.Eq(t, 210, m[0].Samples, must.Sprint("all steps on two"))
	must.Eq(t, 180, m[1].Samples)

	t.Log("an autoscaler that begins late, and one that goes on")
	late := watch()
	late.training = w.training
	late.h.Observe(late.key, &Observation{Running: 2, Slots: 1, Oldest: t0.Add(-time.Hour)}, t0, 0)
	late.trains(2, 2, 1, 10*time.Second)
	must.MapEq(t, map[int]float64{2: 1}, late.known())
	text, err := json.Marshal(w.job())
	must.NoError(t, err)
	next := watch()
	next.training, next.now = w.training, w.now
	next.h.Jobs[next.key] = &Job{}
	must.NoError(t, json.Unmarshal(text, next.job()))
	next.trains(2, 2, 3, 2*time.Hour)
	must.InDelta(t, 3, next.known()[2], 0.1)

	t.Log("one whose first workers are gone: as many steps as can be")
	gone := watch()
	gone.training.run(2, 10_000, 1, 0)
	gone.trains(2, 2, 1, 10*time.Second)
	must.MapEq(t, map[int]float64{2: 1}, gone.known())
	must.LessEq(t, 40, gone.job().Measurements[0].Samples)
}

func TestTenure_IsBounded(t *testing.T) {
	w := watch()
	for size := range 10 * tenureLimit {
		w.nomad(size, 10*time.Minute)
	}
	must.LessEq(t, tenureLimit+1, len(w.job().Had))
	w.nomad(3, 24*time.Hour)
	must.InDelta(t, 24*3600, w.job().Had[3], 20)
}
