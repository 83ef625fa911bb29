// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

var submitted = time.Unix(1_700_000_000, 0)

// history makes the record of a job that starts after 5 s, and does one epoch
// in rings of the given sizes, a step each: 600 ms on one rank, shared by more.
// Every new ring takes 200 ms.
func history(sizes ...int) train.Record {
	at, size := submitted.Add(5*time.Second), 0
	var record train.Record
	add := func(e train.Event) {
		e.T = float64(at.UnixMicro()) / 1e6
		record = append(record, e)
	}
	for i, n := range sizes {
		if n != size {
			size, at = n, at.Add(200*time.Millisecond)
			add(train.Event{Kind: "ring", Size: n})
		}
		at = at.Add(600 * time.Millisecond / time.Duration(n))
		e := train.Event{Kind: "step", Step: i + 1, Size: n, PID: 100, Loss: 1 / float64(i+1)}
		for sample := i * globalBatch; sample < (i+1)*globalBatch; sample++ {
			e.Indices = append(e.Indices, sample)
		}
		add(e)
	}
	add(train.Event{Kind: "done", Epoch: 1})
	return record
}

// epoch returns the sizes of an epoch's rings: 1, then 2, then 1.
func epoch() []int {
	sizes := make([]int, epochSteps)
	for i := range sizes {
		sizes[i] = 1
		if i >= 5 && i < 15 {
			sizes[i] = 2
		}
	}
	return sizes
}

func TestMeasure(t *testing.T) {
	m, err := measure("a", submitted, history(epoch()...))
	must.NoError(t, err)
	must.Eq(t, epochSteps, m.steps)
	must.Eq(t, 0, m.lost)
	must.Eq(t, []time.Duration{200 * time.Millisecond, 200 * time.Millisecond}, m.gaps)
	must.Eq(t, map[int]time.Duration{1: 600 * time.Millisecond, 2: 300 * time.Millisecond}, m.stepTime)
	must.Eq(t, 5800*time.Millisecond, m.startup)
	must.Eq(t, 5*time.Second+3*200*time.Millisecond+10*600*time.Millisecond+10*300*time.Millisecond, m.jct)
	must.Eq(t, "1: 0.60 s, 2: 0.30 s", m.steptimes())
}

func TestMeasureFaults(t *testing.T) {
	cases := map[string]struct {
		change func(train.Record) train.Record
		want   string
		lost   int
	}{
		"nothing is recorded": {func(train.Record) train.Record { return nil }, "a: 0 steps and 0 ends", 0},
		"a step is repeated": {func(r train.Record) train.Record {
			return append(r[:4:4], r[3:]...)
		}, "step 3 came as number 4", 1},
		"another process is rank 0": {func(r train.Record) train.Record { r[9].PID = 7; return r }, "2 processes were rank 0", 0},
		"a sample is not used":      {func(r train.Record) train.Record { r[9].Indices = r[9].Indices[1:]; return r }, "was not used", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := measure("a", submitted, c.change(history(epoch()...)))
			must.ErrorContains(t, err, c.want)
			must.Eq(t, c.lost, m.lost)
		})
	}
}

func TestFIFO(t *testing.T) {
	job := func(name string, after time.Duration, stepTime map[int]time.Duration) measurement {
		return measurement{name: name, submitted: submitted.Add(after), steps: 100, startup: 10 * time.Second, stepTime: stepTime}
	}
	half := map[int]time.Duration{3: 400 * time.Millisecond}
	jobs := []measurement{job("a", 0, half), job("b", 10*time.Second, half), job("c", 20*time.Second, half)}
	jct, err := fifo(t.Context(), jobs, 3)
	must.NoError(t, err)
	// Two fit: the third begins when the first ends at 50 s.
	must.Eq(t, []time.Duration{50 * time.Second, 50 * time.Second, 80 * time.Second}, jct)

	// All of the cluster, one after the other, and perfect scaling to a size
	// that was not measured: 30 s each.
	jct, err = fifo(t.Context(), jobs, 6)
	must.NoError(t, err)
	must.Eq(t, []time.Duration{30 * time.Second, 50 * time.Second, 70 * time.Second}, jct)

	rows, err := compare(t.Context(), jobs)
	must.NoError(t, err)
	must.Eq(t, []string{"job", "kolo, measured", "FIFO with 2, simulated", "FIFO with 3, simulated", "FIFO with 6, simulated"}, rows[0])
	must.Eq(t, []string{"mean", "0 s", "70 s", "60 s", "50 s"}, rows[4])
}

func TestCurve(t *testing.T) {
	m := measurement{stepTime: map[int]time.Duration{2: time.Second, 4: 800 * time.Millisecond}}
	must.Eq(t, []float64{2, 1, 2. / 3, 0.8, 0.64, 3.2 / 6}, m.curve())
}

// The job specification works with both drivers.
func TestJobspec(t *testing.T) {
	for _, f := range []train.Framework{train.Horovod, train.Torch} {
		env, err := json.Marshal(f.Env("/root"))
		must.NoError(t, err)
		spec, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{
			Path: "job.nomad.hcl", Body: []byte(jobspec), Strict: true,
			ArgVars: []string{"name=a", "queue=b", "gpu=true", "max=6", "driver=" + f.Name, "python=/p", "script=/s", "args=[]", "env=" + string(env)},
		})
		must.NoError(t, err)
		finish(spec, "first", f)
		must.Eq(t, "first", *spec.ID)
		task := spec.TaskGroups[0].Tasks[0]
		must.Eq(t, f.Name, task.Driver)
		_, horovod := task.Config["horovod"]
		must.Eq(t, f.Name == "horovod", horovod)
		must.MapLen(t, len(f.Env("/root")), task.Env)
	}
}

// A wait may take any time as long as the cluster changes.
func TestStuck(t *testing.T) {
	var s show
	now := submitted
	for range 10 {
		for _, happens := range []func(){
			func() { s.happened.recorded++ }, func() { s.happened.events++ }, func() { s.happened.modified++ },
		} {
			happens()
			now = now.Add(patience - time.Second)
			must.NoError(t, s.stuck(now))
		}
	}
	must.NoError(t, s.stuck(now.Add(patience)))
	must.ErrorContains(t, s.stuck(now.Add(patience+time.Second)), "no step, no event and no change of an allocation for 10m1s")
}

// A file gets lines in place of a table.
func TestScreenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	must.NoError(t, err)
	s := newScreen(f)
	s.say("%d things", 2)
	s.show("a\nb")
	s.say("more")
	s.clear()
	must.NoError(t, f.Close())
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	must.Len(t, 2, lines)
	must.StrHasSuffix(t, "2 things", lines[0])
	must.StrNotContains(t, string(text), "\x1b")
}
