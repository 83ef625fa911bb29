// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"maps"
	"math"
	"time"
)

const (
	// ringLag is how long after a change of the count the ring may still be the previous
	// one: new workers start while the others train.
	ringLag = 5 * time.Minute
	// tenureSlack is how many seconds the steps at a size may exceed the time for which
	// Nomad has shown that size. Both are known with a delay of some seconds.
	tenureSlack = 30
	// tenureLimit bounds the sizes whose time is remembered.
	tenureLimit = 64
)

// tenure records how long Nomad has shown a job at each size. Times that a training
// reports are believed only for these sizes, and only for as many steps as fit into that
// time.
type tenure struct {
	workers int               // now
	at      time.Time         // end of the time that Job.Had includes
	lately  map[int]time.Time // when sizes were last seen
}

// hold adds the time until now to every size that the ring may have had in that time.
func (j *Job) hold(now time.Time) {
	h := &j.tenure
	passed := min(max(0, now.Sub(h.at)), time.Minute) // this machine may have slept
	if h.at.IsZero() {
		passed = 0
	}
	h.at = now
	for size, seen := range h.lately {
		switch {
		case size == h.workers:
			h.lately[size] = now
		case now.Sub(seen) > ringLag:
			delete(h.lately, size)
			continue
		}
		j.Had[size] = math.Round(1000*(j.Had[size]+passed.Seconds())) / 1000
	}
}

// see records the number of workers that Nomad reports now.
func (j *Job) see(workers int, now time.Time) {
	j.hold(now)
	h := &j.tenure
	h.workers = workers
	if workers < 1 {
		return
	}
	if h.lately == nil {
		h.lately = map[int]time.Time{}
	}
	if j.Had == nil {
		j.Had = map[int]float64{}
	}
	h.lately[workers] = now
	j.Had[workers] += 0 // begins to count now
	maps.DeleteFunc(j.Had, func(size int, _ float64) bool {
		_, lately := h.lately[size]
		return len(j.Had) > tenureLimit && !lately
	})
}

// has returns how many seconds of steps are believed at a size; ok is false if Nomad
// never saw the job at it.
func (j *Job) has(size int, now time.Time) (seconds float64, ok bool) {
	j.hold(now)
	seconds, ok = j.Had[size]
	return seconds + tenureSlack, ok
}
