// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"math"
)

// fixed reads traces with one line for each job of a fixed number of GPUs, such as those of
// Helios, Philly and ElasticFlow, which differ in the names of their columns. Jobs without
// GPUs and jobs that never ran are left out silently.
type fixed struct {
	id, app, tenant string // columns; may be missing in the file
	gpus, submit    string

	// seconds returns how long the job of the present line ran.
	seconds func() float64

	// more sets fields that only this format has; it may be nil.
	more func(j *Job) error
}

func (f *fixed) read(t *Trace, tab *table, o Options) error {
	curves := map[int]*Curve{}
	err := tab.rows(t, o, func() error {
		gpus, seconds := tab.size(f.gpus, 0), f.seconds()
		j := Job{ID: tab.text(f.id), App: tab.text(f.app), Tenant: tab.text(f.tenant), Submit: tab.clock(f.submit)}
		switch {
		case tab.err != nil:
			return tab.err
		case gpus == 0 || seconds == 0:
			return nil
		}
		if err := scaled(&j, gpus, seconds, o, curves); err != nil {
			return err
		}
		if f.more != nil {
			if err := f.more(&j); err != nil {
				return err
			}
		}
		return t.add(j)
	})
	if err != nil {
		return err
	}
	t.shift()
	return nil
}

// scaled sets the fields that a trace of fixed-size jobs does not have: the job may have 1
// worker up to grow times its size, with the speed-up n^alpha. One step takes one second at
// the size in the trace.
func scaled(j *Job, gpus int, seconds float64, o Options, curves map[int]*Curve) error {
	if o.grow() < 1 || gpus > maxSize/o.grow() {
		return fmt.Errorf("a job of %d GPUs that may grow %d times is too large", gpus, o.grow())
	}
	j.Min, j.Preferred, j.Max = 1, gpus, gpus*o.grow()
	j.Steps = seconds
	j.Preemptible = true
	if c := curves[gpus]; c != nil {
		j.Curve = c
		return nil
	}
	c, err := PowerCurve(math.Pow(float64(gpus), o.alpha()), o.alpha(), j.Max)
	if err != nil {
		return err
	}
	curves[gpus] = c
	j.Curve = c
	return nil
}
