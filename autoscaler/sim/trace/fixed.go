// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"math"
)

// fixed reads traces with one line for each job of a fixed number of GPUs, such as those of
// Helios, Philly and ElasticFlow, which differ in the names of their columns. Jobs without
// GPUs, and jobs that never ran, are left out silently.
type fixed struct {
	id, app, tenant string // columns; "" is a missing one
	gpus, submit    string

	// seconds is how long the job of the present line ran.
	seconds func() float64

	// more fills in fields that only this format has; nil is none.
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

// scaled fills in what a trace of fixed-size jobs lacks: the job may run on 1 to grow times
// its size, with the speed-up n^alpha. One step is one second at the size of the trace.
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
