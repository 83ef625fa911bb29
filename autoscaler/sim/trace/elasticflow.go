// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// readElasticFlow reads the CSV files of ElasticFlow (ASPLOS'23) and of the simulator that it
// is based on (Tiresias). The columns job_id, num_gpu, duration and submission_time or
// submit_time are required. Optional columns are num_iteration, iterations or iteration;
// model_name; batch_size; deadline or ddl (same clock as the submission, 0 or less means
// none).
//
// With a directory of throughput files (one per model, MODEL.csv, columns global_batch_size
// and steps per second on 1, 2, 4 … GPUs), jobs follow the measured curves. Without it, they
// follow n^alpha from their duration. A blank, nan or 0 in such a file is a size that was not
// measured. Interpolate fills it in between measured ones. A job gets at most the largest
// measured size.
func readElasticFlow(t *Trace, r *bufio.Reader, file string, o Options) error {
	tab, err := newTable(r, file, "job_id", "num_gpu", "duration")
	if err != nil {
		return err
	}
	pick := func(names ...string) string {
		for _, n := range names {
			if tab.has(n) {
				return n
			}
		}
		return ""
	}
	submit, deadline := pick("submission_time", "submit_time"), pick("deadline", "ddl")
	steps := pick("num_iteration", "iterations", "iteration")
	if submit == "" {
		return tab.need("submission_time")
	}
	measured := throughputs{dir: o.Curves, curves: map[appKey]*Curve{}}
	jobs := fixed{
		id: "job_id", app: "model_name", tenant: "user", gpus: "num_gpu", submit: submit,
		seconds: func() float64 { return tab.float("duration", 0) },
	}
	jobs.more = func(j *Job) error {
		if deadline != "" && tab.text(deadline) != "" {
			j.Deadline = max(0, tab.float(deadline, -1e18))
			if j.Deadline != 0 && j.Deadline <= j.Submit {
				tab.fail(deadline, fmt.Errorf("deadline %g is not after the submission %g", j.Deadline, j.Submit))
			}
		}
		if o.Curves != "" && steps != "" && tab.has("batch_size") {
			key := appKey{j.App, tab.whole("batch_size", 1)}
			j.Steps = tab.float(steps, 1)
			if tab.err != nil {
				return tab.err
			}
			j.Batch = key.batch
			if j.Curve, err = measured.curve(key); err != nil {
				tab.fail("model_name", err)
				return tab.err
			}
			j.Max = max(j.Preferred, min(j.Max, j.Curve.Most()))
		}
		return tab.err
	}
	return jobs.read(t, tab, o)
}

// throughputs reads and caches ElasticFlow's throughput files.
type throughputs struct {
	dir    string
	curves map[appKey]*Curve
}

func (th *throughputs) curve(key appKey) (*Curve, error) {
	if c, ok := th.curves[key]; ok {
		return c, nil
	}
	path := filepath.Join(th.dir, filepath.Base(key.app)+".csv")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("throughputs of %s: %w", key.app, err)
	}
	defer f.Close()
	tab, err := newTable(bufio.NewReader(f), path, "global_batch_size", "1")
	if err != nil {
		return nil, err
	}
	for {
		err := tab.next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no throughput for batch size %d in %s", key.batch, path)
		}
		if err != nil {
			return nil, err
		}
		if batch := tab.whole("global_batch_size", 1); tab.err == nil && batch != key.batch {
			continue
		}
		points, most := map[int]float64{}, 0
		for name := range tab.cols {
			n, err := strconv.Atoi(name)
			if err != nil || n < 1 || n > 1<<16 || !tab.filled(name) {
				continue
			}
			if v := tab.float(name, 0); v > 0 {
				points[n] = 1 / v
				most = max(most, n)
			}
		}
		if tab.err != nil {
			return nil, tab.err
		}
		c, err := Interpolate(points, most)
		if err != nil {
			return nil, fmt.Errorf("%s: batch size %d: %w", path, key.batch, err)
		}
		th.curves[key] = c
		return c, nil
	}
}
