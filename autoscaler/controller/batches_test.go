// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// told returns what the events of a job state about its batch, the newest first.
func (w *world) told(id string) (out []bool) {
	w.t.Helper()
	client, err := api.NewClient(&api.Config{Address: w.server.URL, SecretID: "autoscaler"})
	must.NoError(w.t, err)
	s, _, err := client.Jobs().ScaleStatus(id, nil)
	must.NoError(w.t, err)
	for _, g := range s.TaskGroups {
		for _, e := range g.Events {
			meta, _ := e.Meta["kolo"].(map[string]any)
			if may, ok := meta["adapt_batch"].(bool); ok {
				must.Nil(w.t, e.Count, must.Sprint("the count stays"))
				out = append(out, may)
			}
		}
	}
	return out
}

// A pool forbids its jobs to adapt their batch. A job that adapts is told, once if it knows
// then, and a job whose batch is fixed is not told.
func TestController_TellsJobsToKeepTheirBatch(t *testing.T) {
	w := newWorld(t, 1, 4)
	c := w.probing()
	pool := c.Pools["default"]
	pool.AdaptBatch = false
	c.Pools["default"] = pool
	a, _ := w.start(c)
	var keeps atomic.Bool
	register := func(id, adaptive string) {
		answers := newAnswering(t, func(rw http.ResponseWriter, r *http.Request) {
			saying(fmt.Sprintf(`{"job":%q,"namespace":"default","size":1,"step":9,"samples":900,"keeps_batch":%t%s}`, id, keeps.Load(), adaptive))(rw, r)
		})
		w.nomad.Register(nomadtest.Job{ID: id, Max: 1, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{answers.at}, Elastic: w.elastic})
	}
	register("fixed", "")
	register("a", `,"adaptive":{"initial":32,"batch":64,"accumulation":1,"efficiency":0.9,"lr_factor":1.8}`)
	until := func(what string, f func() bool) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(f), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)), must.Sprint(what))
	}
	until("it is told", func() bool { return len(w.told("a")) == 1 })
	must.Eq(t, []bool{false}, w.told("a"))
	w.decides(a, func(j *job) bool { return !j.batch.again.IsZero() })
	must.Len(t, 1, w.told("a"), must.Sprint("it is not told again at once"))

	keeps.Store(true)
	w.decides(a, func(j *job) bool { return j.batch.keeps && j.batch.told == 0 })
	must.Len(t, 1, w.told("a"))
	must.SliceEmpty(t, w.told("fixed"))

	a.mu.Lock()
	pool.AdaptBatch = true
	a.cfg.Pools["default"] = pool
	a.mu.Unlock()
	until("it is told that it may", func() bool { return len(w.told("a")) == 2 })
	must.Eq(t, []bool{true, false}, w.told("a"))
}

// A job whose driver cannot read its events is told three times, ten minutes apart.
func TestController_TellsAJobAboutItsBatchSeldom(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, stop := w.start(w.probing())
	answers := newAnswering(t, saying(`{"job":"a","namespace":"default","size":1,"step":9,"samples":900,
		"adaptive":{"initial":32,"batch":64,"accumulation":1,"efficiency":0.9,"lr_factor":1.8}}`))
	w.nomad.Register(nomadtest.Job{ID: "a", Max: 1, GPUs: 1, CPU: 100, Priority: 50, Service: "a", At: []string{answers.at}, Elastic: w.elastic})
	w.decides(a, func(j *job) bool { return j.batch.told == 1 })
	stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.job(identity.JobKey{Namespace: "default", ID: "a"})
	now := j.batch.again
	must.SliceEmpty(t, a.unaware(a.view, now.Add(-time.Second)))
	for range 2 {
		must.Len(t, 1, a.unaware(a.view, now))
		must.SliceEmpty(t, a.unaware(a.view, now))
		now = now.Add(tellBatchAgain)
	}
	must.SliceEmpty(t, a.unaware(a.view, now))

	t.Log("a driver that forgets it again and again costs no more")
	j.batch.told = 0
	told := 0
	for range 1000 {
		for _, keeps := range []bool{true, false} {
			j.batch.keeps = keeps
			told += len(a.unaware(a.view, now))
		}
		now = now.Add(time.Second)
	}
	must.Eq(t, 2, told, must.Sprint("in 1000 s"))
}
