// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
)

// TestUsage kills the leader while jobs are resized, and ends a job while no one leads. The
// usage equals the allocations' own times within 1 %. They last until Nomad's servers
// learned of their end, because only then could others use the slot.
func TestUsage(t *testing.T) {
	w := start(t)
	agents := []*daemon{w.agent(t, "u0", w.Address), w.agent(t, "u1", w.Address)}
	leader := func() int {
		at := -1
		waitFor(t, 2*time.Minute, "a leader", func() bool {
			for i, d := range agents {
				if d != nil && d.leads() {
					at = i
				}
			}
			return at >= 0
		})
		return at
	}
	at := leader()
	w.submit(t, "a", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"a": slots})
	time.Sleep(10 * time.Second) // slots are held
	w.submit(t, "b", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"a": 6, "b": 6})
	time.Sleep(20 * time.Second) // Nomad learns of the end of a task some tenths of a second later
	agents[at].kill(syscall.SIGKILL)
	agents[at] = nil
	t.Log("a job ends while no one leads")
	w.stop(t, "b")
	d := agents[leader()]
	w.eventually(t, time.Minute, map[string]int{"a": slots})
	time.Sleep(5 * time.Second)
	w.stop(t, "a")

	want := w.slotSeconds(t)
	waitFor(t, time.Minute, "the ends of the jobs to be known", func() bool {
		rows := d.usage(t)
		return rows["a"].End == "stopped" && rows["b"].End == "stopped"
	})
	rows := d.usage(t)
	must.MapLen(t, 2, rows)
	for job, seconds := range want {
		u := rows[job]
		t.Logf("%s: %.2f slot-seconds by the allocations' own times, %.2f by kolo usage", job, seconds, u.Held)
		must.LessEq(t, 0.01*seconds, math.Abs(seconds-u.Held))
		must.Eq(t, u.Held, u.Unknown, must.Sprint("it reports no steps"))
		must.Nil(t, u.Share)
	}

	t.Log("what the last leader saves is what the next one shows")
	again := w.agent(t, "u2", w.Address)
	d.kill(os.Interrupt)
	waitFor(t, 2*time.Minute, "a leader", again.leads)
	waitFor(t, 2*time.Minute, "the state to be read", func() bool {
		_, err := again.kolo("usage")
		return err == nil
	})
	for job, u := range again.usage(t) {
		must.Eq(t, rows[job].Held, u.Held, must.Sprint(job))
	}
	out, err := again.kolo("history")
	must.NoError(t, err)
	must.StrContains(t, out, "stopped")
}

// usage returns what kolo usage shows of each job.
func (d *daemon) usage(t *testing.T) map[string]koloapi.UsageRow {
	t.Helper()
	out, err := d.kolo("usage", "-by", "job", "-since", "2d", "-format", "json")
	must.NoError(t, err, must.Sprint(out))
	var r koloapi.UsageReport
	must.NoError(t, json.Unmarshal([]byte(out), &r))
	rows := map[string]koloapi.UsageRow{}
	for _, row := range r.Rows {
		rows[row.Job] = row
	}
	return rows
}

// stop stops a job, and waits for its workers to end.
func (w *world) stop(t *testing.T, name string) {
	t.Helper()
	_, _, err := w.API.Jobs().Deregister(name, false, nil)
	must.NoError(t, err)
	waitFor(t, time.Minute, "the workers of "+name+" to end", func() bool {
		allocs, _, err := w.API.Jobs().Allocations(name, true, nil)
		return err == nil && !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool { return a.ClientStatus == api.AllocClientStatusRunning })
	})
}

// slotSeconds returns what allocations of one slot held by their own times, by job.
func (w *world) slotSeconds(t *testing.T) map[string]float64 {
	t.Helper()
	allocs, _, err := w.API.Allocations().List(nil)
	must.NoError(t, err)
	out := map[string]float64{}
	for _, a := range allocs {
		must.Eq(t, api.AllocClientStatusComplete, a.ClientStatus)
		out[a.JobID] += time.Duration(a.ModifyTime - a.CreateTime).Seconds()
		for _, s := range a.TaskStates {
			t.Logf("%s: from its creation to its start %s, from its end to when Nomad knew it %s", a.Name, s.StartedAt.Sub(time.Unix(0, a.CreateTime)), time.Unix(0, a.ModifyTime).Sub(s.FinishedAt))
		}
	}
	return out
}

// accounts checks that training jobs used most of their slots productively, and that the
// status and the usage agree.
func (d *daemon) accounts(t *testing.T, jobs ...string) {
	t.Helper()
	s, err := d.status()
	must.NoError(t, err)
	rows := d.usage(t)
	for _, j := range s.Jobs {
		if !slices.Contains(jobs, j.ID) {
			continue
		}
		u, row := j.Usage, rows[j.ID]
		must.NotNil(t, u, must.Sprint(j.ID))
		must.NotNil(t, u.Share, must.Sprint(j.ID))
		must.NotNil(t, row.Share, must.Sprint(j.ID))
		t.Logf("%s: %+v, productive share %.3f", j.ID, *u, *u.Share)
		must.Between(t, 0.4, *u.Share, 1)
		must.Positive(t, u.Starting)
		must.Less(t, 0.1*u.Held, u.Unknown)
		must.Between(t, u.Held, row.Held, 1.2*u.Held)
	}
	for _, args := range [][]string{{"usage", "-by", "job"}, {"history"}, {"eff", jobs[len(jobs)-1]}, {"job", jobs[len(jobs)-1]}} {
		out, err := d.kolo(args...)
		must.NoError(t, err, must.Sprint(out))
		t.Log("kolo ", args, "\n", out)
	}
}
