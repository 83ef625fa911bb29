// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// The steps of three jobs take 1.3 times as long every other hour. No job is resized for
// that.
func TestMeasurement_PhasesOfATrainingResizeNoOne(t *testing.T) {
	for _, spec := range []string{"kolo", "weighted-fair", "ffdl", "afs-l", "optimus", "elastic-tiresias"} {
		_, resizes := aDay(t, spec, 3, func(size int, since time.Duration) float64 {
			step := 0.1 + 0.9/float64(size)
			if int(since/time.Hour)%2 == 1 {
				step *= 1.3
			}
			return step
		})
		must.Less(t, 15, resizes, must.Sprint(spec))
	}
}

func unix(t time.Time) float64 { return float64(t.Unix()) }

// aDay lets a policy share eight GPUs among jobs for a day. step returns how long their
// steps take. aDay returns the seconds trained at each size, and how often jobs were
// resized.
func aDay(t *testing.T, spec string, jobs int, step func(size int, since time.Duration) float64) (at map[int]float64, resizes int) {
	t.Helper()
	p, err := builtin.Policies.Parse(spec)
	must.NoError(t, err)
	records, trainings, sizes := make([]Job, jobs), make([]*training, jobs), make([]int, jobs)
	for i := range jobs {
		trainings[i], sizes[i] = newTraining(), 1
	}
	var state []byte
	at, last := map[int]float64{}, uint64(0)
	const tick = 10 * time.Second
	for now := t0; now.Before(t0.Add(24 * time.Hour)); now = now.Add(tick) {
		s := &policy.Snapshot{Now: unix(now), State: state, ResizeCost: 0.3, Nodes: []policy.Node{{ID: "n", GPUs: 8, Free: 8}}}
		for i := range jobs {
			r, size := &records[i], sizes[i]
			took := step(size, now.Sub(t0))
			trainings[i].run(size, tick.Seconds()/took, took, 0)
			at[size] += tick.Seconds()
			r.learn(trainings[i].progress(size), 1, now)
			r.observe(&Observation{Running: size, Slots: 1}, now, tick)
			s.Nodes[0].Free -= size
			s.Jobs = append(s.Jobs, policy.Job{
				ID: strconv.Itoa(i), Min: 1, Max: 8, Count: size, Resizes: r.Resizes, Submit: unix(t0), FirstStart: unix(t0),
				RunTime: r.RunTime, Attained: r.Attained, Curve: (*Kind)(nil).extend(r.Points(), r.expired()),
			})
		}
		sum := s.Fingerprint()
		s.Changed, last = sum != last, sum
		d := p.Allocate(s)
		state = d.State
		for i := range sizes {
			if n := d.Allocations[i].Count; n != sizes[i] {
				sizes[i] = n
				records[i].Resizes++
				resizes++
			}
		}
	}
	return at, resizes
}

// The cause that made a size slow may pass.
func TestMeasurement_ASizeThatLookedSlowIsTriedAgain(t *testing.T) {
	for _, spec := range []string{"kolo", "weighted-fair", "ffdl", "afs-l"} {
		at, resizes := aDay(t, spec, 1, func(size int, since time.Duration) float64 {
			if size > 4 && since < 5*time.Minute {
				return 2 // a bad node
			}
			return 1 / float64(size)
		})
		must.Greater(t, 20*3600.0, at[8], must.Sprintf("%s: %v", spec, at))
		must.Less(t, 30, resizes, must.Sprint(spec))
	}
}

// A training that does not scale is not resized all day.
func TestMeasurement_ASizeThatDoesNotImproveIsSeldomTried(t *testing.T) {
	at, resizes := aDay(t, "kolo", 1, func(size int, _ time.Duration) float64 {
		if size > 4 {
			return 0.5
		}
		return 1 / float64(size)
	})
	must.Greater(t, 23.5*3600, at[4], must.Sprint(at))
	must.Less(t, 40, resizes)
}
