// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"io"
	"math"
)

// scaled fills in what a trace of fixed-size jobs does not say: that the job
// may run on 1 to grow times its size, with the speed-up n^alpha. One step is
// one second at the size of the trace.
func scaled(j *Job, gpus int, seconds float64, o Options, curves map[int]*Curve) error {
	if o.grow() < 1 || gpus > maxSize/o.grow() {
		return fmt.Errorf("a job of %d GPUs that may grow %d times is too large", gpus, o.grow())
	}
	j.Min, j.Preferred, j.Max = 1, gpus, gpus*o.grow()
	j.Steps = seconds
	j.Suspendable = true
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

// readHelios reads the cluster_log.csv of the Helios traces (Hu et al.,
// SC'21): job_id, user, vc, gpu_num, submit_time and duration are used, state
// is looked at, other columns are ignored. Jobs without GPUs are no jobs for
// us and left out silently, as are those that never ran.
func readHelios(t *Trace, r io.Reader, file string, o Options) error {
	tab, err := newTable(r, file)
	if err != nil {
		return err
	}
	if err := tab.need("job_id", "gpu_num", "submit_time", "duration"); err != nil {
		return err
	}
	curves := map[int]*Curve{}
	err = tab.rows(t, o, func() error {
		gpus, seconds := tab.size("gpu_num", 0), tab.float("duration", 0)
		j := Job{ID: tab.text("job_id"), App: tab.text("user"), Tenant: tab.text("vc"), Submit: tab.clock("submit_time")}
		switch {
		case tab.err != nil:
			return tab.err
		case gpus == 0 || seconds == 0:
			return nil
		}
		if err := scaled(&j, gpus, seconds, o, curves); err != nil {
			return err
		}
		return t.add(j)
	})
	if err != nil {
		return err
	}
	t.shift()
	return nil
}
