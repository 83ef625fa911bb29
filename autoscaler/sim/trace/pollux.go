// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// appKey names a curve: an application at one batch size.
type appKey struct {
	app   string
	batch int
}

// readPollux reads jobs with the columns workload, name, submit_s, application, np,
// batch_size, max_replicas, steps. Their curves come from a second file with application,
// batch_size, gpus, step_time_s for 1, 2, 3 … GPUs. A job never grows beyond the largest
// measured size.
func readPollux(t *Trace, r *bufio.Reader, file string, o Options) error {
	var curves map[appKey]*Curve
	switch {
	case o.Curves != "":
		var err error
		if curves, err = readStepTimes(o.Curves); err != nil {
			return err
		}
	case o.Phases == nil:
		return fmt.Errorf("%s: no step_times.csv next to this trace; name one with -curves", file)
	}
	tab, err := newTable(r, file, "name", "submit_s", "application", "np", "batch_size", "max_replicas", "steps")
	if err != nil {
		return err
	}
	err = tab.rows(t, o, func() error {
		workload := 1
		if tab.has("workload") {
			workload = tab.whole("workload", 0)
		}
		if o.Workload != 0 && workload != o.Workload {
			return nil
		}
		j := Job{
			ID: tab.text("name"), App: tab.text("application"),
			Submit: tab.float("submit_s", 0), Steps: tab.float("steps", 0),
			Min: 1, Max: tab.size("max_replicas", 1), Preferred: tab.size("np", 1),
			Preemptible: true,
		}
		if j.ID == "" {
			tab.fail("name", errors.New("a job needs a name"))
		}
		if o.Workload == 0 && tab.has("workload") {
			j.ID = "w" + strconv.Itoa(workload) + "/" + j.ID
		}
		key := appKey{j.App, tab.whole("batch_size", 1)}
		if tab.err != nil {
			return tab.err
		}
		j.Batch = key.batch
		if j.Curve = o.Phases.curve(j.App); j.Curve == nil {
			j.Curve = curves[key]
		}
		if j.Curve == nil {
			tab.fail("application", fmt.Errorf("no step times for %s with batch size %d in %s", key.app, key.batch, o.Curves))
			return tab.err
		}
		j.Max = min(j.Max, j.Curve.Most())
		j.Preferred = min(j.Preferred, j.Max)
		return t.add(j)
	})
	if err == nil && o.Workload != 0 && len(t.Jobs) == 0 {
		err = fmt.Errorf("%s: no workload %d in this file", file, o.Workload)
	}
	return err
}

// readStepTimes reads the curves of a Pollux trace.
func readStepTimes(path string) (map[appKey]*Curve, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: step times: %w", err)
	}
	defer f.Close()
	tab, err := newTable(f, path, "application", "batch_size", "gpus", "step_time_s")
	if err != nil {
		return nil, err
	}
	times := map[appKey][]float64{}
	err = tab.each(func() error {
		key := appKey{tab.text("application"), tab.whole("batch_size", 1)}
		if n := tab.size("gpus", 1); n != len(times[key])+1 {
			tab.fail("gpus", fmt.Errorf("want %d: sizes of %s stand in order without gaps, got %d", len(times[key])+1, key.app, n))
		}
		times[key] = append(times[key], tab.float("step_time_s", 0))
		return nil
	})
	if err != nil {
		return nil, err
	}
	curves := make(map[appKey]*Curve, len(times))
	for key, v := range times {
		c, err := NewCurve(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %s with batch size %d: %w", path, key.app, key.batch, err)
		}
		curves[key] = c
	}
	return curves, nil
}

// Workloads returns the workload numbers in a Pollux jobs file, nil if the file has no such
// column.
func Workloads(path string) ([]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	tab, err := newTable(f, path)
	if err != nil || !tab.has("workload") || !tab.has("application") {
		return nil, nil // not a Pollux file; Open reports what is wrong with it, if anything
	}
	var found []int
	seen := map[int]bool{}
	for tab.next() == nil {
		w := tab.whole("workload", 0)
		if tab.err == nil && !seen[w] {
			seen[w] = true
			found = append(found, w)
		}
	}
	return found, nil
}
