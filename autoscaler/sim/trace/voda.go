// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"bufio"
	"errors"
	"fmt"
)

// readVoda reads jobs with the columns job, arrival_s, model, np, min, max, epochs, t1_est_s
// (seconds for the whole job on one GPU) and speedup2, speedup3 … up to max. One step is one
// epoch.
func readVoda(t *Trace, r *bufio.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "job", "arrival_s", "model", "np", "min", "max", "epochs", "t1_est_s")
	if err != nil {
		return err
	}
	return tab.rows(t, o, func() error {
		j := Job{
			ID: tab.text("model") + "-" + tab.text("job"), App: tab.text("model"),
			Submit: tab.float("arrival_s", 0), Steps: tab.float("epochs", 1),
			Min: tab.size("min", 1), Max: tab.size("max", 1), Preferred: tab.size("np", 1),
			Preemptible: true,
		}
		if tab.text("job") == "" {
			tab.fail("job", errors.New("a job needs a number"))
		}
		t1 := tab.float("t1_est_s", 0) / j.Steps
		times := []float64{t1}
		for n := 2; n <= j.Max; n++ {
			name := fmt.Sprintf("speedup%d", n)
			if !tab.has(name) {
				break
			}
			s := tab.float(name, 0)
			if s == 0 {
				tab.fail(name, errors.New("want a speed-up above 0"))
			}
			times = append(times, t1/s)
		}
		if tab.err != nil {
			return tab.err
		}
		j.Max = min(j.Max, len(times))
		if j.Curve, err = NewCurve(times); err != nil {
			return err
		}
		return t.add(j)
	})
}
