// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A measurement is what the records of one job prove.
type measurement struct {
	name      string
	submitted time.Time
	steps     int // made, counting repeated ones once
	lost      int // made again
	gaps      []time.Duration
	startup   time.Duration // from the submission to the end of the first step
	jct       time.Duration // from the submission to the last rank's end
	stepTime  map[int]time.Duration
}

// measure evaluates a whole record. It returns an error if the record is not as it
// must be.
func measure(name string, submitted time.Time, record train.Record) (measurement, error) {
	m := measurement{name: name, submitted: submitted, stepTime: map[int]time.Duration{}}
	steps, done := record.Leading(), record.Where("done", nil)
	if len(steps) == 0 || len(done) == 0 {
		return m, fmt.Errorf("%s: %d steps and %d ends are recorded", name, len(steps), len(done))
	}
	bySize := map[int][]time.Duration{}
	seen := map[int]bool{}
	for i, e := range steps {
		if seen[e.Step] {
			m.lost++
		}
		seen[e.Step] = true
		if i > 0 && steps[i-1].Size == e.Size && steps[i-1].Step+1 == e.Step {
			bySize[e.Size] = append(bySize[e.Size], e.Time().Sub(steps[i-1].Time()))
		}
	}
	for n, times := range bySize {
		m.stepTime[n] = median(times)
	}
	m.steps = len(seen)
	for _, z := range resizes(record) {
		m.gaps = append(m.gaps, z.idle)
	}
	m.startup = steps[0].Time().Sub(submitted)
	m.jct = done[len(done)-1].Time().Sub(submitted)

	var err error
	if pids := record.PIDs(0); len(pids) != 1 {
		err = fmt.Errorf("%d processes were rank 0: %v", len(pids), pids)
	}
	if err = errors.Join(record.CheckConsecutive(), record.CheckSamples(epochSteps*globalBatch), record.CheckLoss(), err); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return m, err
}

// A resize is a change of the ring, with the time in which no rank trained: from
// the last step of the old ring until rank 0 of the new one begins its first.
type resize struct {
	train.Resize
	idle time.Duration
}

func resizes(record train.Record) []resize {
	var all []resize
	begun := record.Where("ring", func(e train.Event) bool { return e.Rank == 0 })
	for _, z := range record.Resizes() {
		r := resize{Resize: z, idle: z.Gap()}
		for _, e := range begun {
			if e.T > z.Before.T && e.T < z.After.T {
				r.idle = e.Time().Sub(z.Before.Time())
			}
		}
		all = append(all, r)
	}
	return all
}

// median returns the median of durations, which it sorts; 0 if there are none.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}
