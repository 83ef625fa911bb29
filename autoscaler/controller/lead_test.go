// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Two autoscalers run. The leader dies again and again, Nomad has faults of every kind, and
// jobs come and go.
func TestController_TwoAgentsAndAFailingNomad(t *testing.T) {
	w := newWorld(t, 4, 4)
	w.nomad.StopDelay = 20 * time.Millisecond
	w.watchful(16)
	codes := []int{500, 429, 503}
	w.nomad.Fault = func(_, path string) int {
		switch rand.IntN(20) {
		case 0, 1:
			if path != "/v1/event/stream" {
				return codes[rand.IntN(len(codes))]
			}
		case 2:
			time.Sleep(30 * time.Millisecond) // slow
		}
		return 0
	}
	for i := range 4 {
		_, stopA := w.start(w.config())
		_, stopB := w.start(w.config())
		w.job(fmt.Sprint("j", i), 1, 16)
		time.Sleep(time.Duration(200+50*i) * time.Millisecond)
		stopA() // whichever of the two leads
		time.Sleep(100 * time.Millisecond)
		w.nomad.ExpireLock("kolo/leader")
		stopB()
	}
	w.start(w.config())
	w.eventually(map[string]int{"j0": 4, "j1": 4, "j2": 4, "j3": 4})
}

func TestController_NomadAway(t *testing.T) {
	w := newWorld(t, 2, 4)
	var away atomic.Bool
	w.nomad.Fault = func(_, _ string) int {
		if away.Load() {
			return 500
		}
		return 0
	}
	a, _ := w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	away.Store(true)
	w.server.CloseClientConnections()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return !a.Status().Leading }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.job("b", 2, 8)
	away.Store(false)
	w.eventually(map[string]int{"a": 4, "b": 4})
}

// A policy that plans on events also sees them on an autoscaler that does not lead, where
// its decisions are not written. A new leader begins with the last leader's state, in which
// the job is missing.
func TestController_JobThatComesWhileNobodyLeads(t *testing.T) {
	w := newWorld(t, 2, 4)
	var locked atomic.Bool
	w.nomad.Fault = func(_, path string) int {
		if locked.Load() && path == "/v1/var/kolo/leader" {
			return 500
		}
		return 0
	}
	cfg := w.config()
	cfg.Pools["default"] = config.Pool{Name: "default", Policy: "kolo", Device: "gpu"}
	_, stop := w.start(cfg)
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	stop() // it saves its plan
	a, _ := w.start(cfg)
	waits := func(what func(*api.Status) bool) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return what(a.Status()) }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	waits(func(s *api.Status) bool { return s.Leading })
	locked.Store(true)
	waits(func(s *api.Status) bool { return !s.Leading })
	w.job("b", 2, 8)
	waits(func(s *api.Status) bool {
		return slices.ContainsFunc(s.Jobs, func(j api.JobStatus) bool { return j.ID == "b" && j.Want > 0 })
	})
	locked.Store(false)
	w.eventually(map[string]int{"a": 4, "b": 4})
}

// An autoscaler that does not lead sees the same pools and jobs. A sum over all autoscalers
// must count them once.
func TestController_OnlyTheLeaderExportsTheCluster(t *testing.T) {
	w := newWorld(t, 1, 4)
	first, _ := w.start(w.config())
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
	c := w.config()
	c.Name = "second"
	second, _ := w.start(c)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { s := second.Status(); return len(s.Jobs) == 1 && len(s.Pools) == 1 }),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	series := func(a *Controller) map[string]int {
		jobs := prometheus.NewRegistry()
		jobs.MustRegister(a.JobMetrics(func(identity.JobKey) bool { return true }))
		families, err := prometheus.Gatherers{a.Registry(), jobs}.Gather()
		must.NoError(t, err)
		n := map[string]int{}
		for _, f := range families {
			n[f.GetName()] = len(f.GetMetric())
		}
		return n
	}
	led, standby := series(first), series(second)
	for _, name := range []string{"kolo_pool_slots", "kolo_pool_slots_used", "kolo_pool_jobs_waiting", "kolo_pool_policy", "kolo_jobs_with_problems",
		"kolo_job_workers", "kolo_job_running", "kolo_job_slots", "kolo_job_wanted"} {
		must.Eq(t, 1, led[name], must.Sprint(name))
		must.Eq(t, 0, standby[name], must.Sprint(name))
	}
	must.Eq(t, 1, standby["kolo_leader"])
}

func TestController_GivesTheLockBackWhenItStops(t *testing.T) {
	w := newWorld(t, 1, 4)
	c := w.config()
	c.Leader.TTL = time.Hour
	_, stop := w.start(c)
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
	stop()
	c = w.config()
	c.Leader.TTL = time.Hour
	b, _ := w.start(c)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return b.Status().Leading }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

func TestController_SavesTheHistoryWhenItStops(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, stop := w.start(w.config())
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { s := a.Status(); return len(s.Jobs) == 1 && s.Jobs[0].Running == 4 }),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	stop()
	saved, lost, err := a.store.LoadHistory(t.Context())
	must.NoError(t, errors.Join(lost, err))
	must.MapLen(t, 1, saved.Jobs)
}

// An autoscaler starts while Nomad's event buffer still has workers of a job that is gone.
func TestController_OldEventsBringNothingBack(t *testing.T) {
	w := newWorld(t, 1, 4)
	_, stop := w.start(w.config())
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
	stop()
	w.nomad.Purge("a")
	w.start(w.config())
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
}
