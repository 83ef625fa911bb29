// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/internal/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/store"
)

// world is a stand-in for Nomad and the agents that look after it.
type world struct {
	t       *testing.T
	nomad   *nomadtest.Cluster
	server  *httptest.Server
	agents  int
	elastic map[string]any

	// Of agents that are started, 0 for the default.
	protectAfter, probeTimeout time.Duration
	log                        hclog.Logger // nil for the test's own, of errors
}

func newWorld(t *testing.T, nodes, gpus int) *world {
	w := &world{t: t, nomad: nomadtest.New(), elastic: map[string]any{"kolo": []any{map[string]any{}}}}
	w.nomad.AddNodes(nodes, gpus)
	w.server = httptest.NewServer(w.nomad)
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
	})
	return w
}

func (w *world) config() *config.Config {
	c := config.Default()
	w.agents++
	c.Name = fmt.Sprint("agent-", w.agents)
	c.Nomad.Address, c.Nomad.Timeout, c.Nomad.Resync = w.server.URL, 2*time.Second, 500*time.Millisecond
	c.Leader.TTL, c.Leader.Delay = 600*time.Millisecond, 100*time.Millisecond
	c.Planner.Hold, c.Planner.Debounce, c.Planner.Tick, c.Planner.Progress = 0, 5*time.Millisecond, 200*time.Millisecond, 0
	c.Planner.PlacementTimeout = 2 * time.Second
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu"}
	return c
}

// start runs an agent until stop is called or the test ends.
func (w *world) start(c *config.Config) (a *Controller, stop func()) {
	return w.startWith(c, nil)
}

// startWith starts an agent with external policies.
func (w *world) startWith(c *config.Config, external ExternalPolicies) (a *Controller, stop func()) {
	log := hclog.New(&hclog.LoggerOptions{Name: c.Name, Level: hclog.Error, Output: testWriter{w.t}})
	if external != nil {
		log = hclog.NewNullLogger() // that it fails is what is tested
	}
	if w.log != nil {
		log = w.log
	}
	a, err := New(c, external, log)
	must.NoError(w.t, err)
	if w.protectAfter > 0 {
		a.protectAfter = w.protectAfter
	}
	if w.probeTimeout > 0 {
		a.prober = cluster.NewProber(a.client, w.probeTimeout)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			must.NoError(w.t, <-done)
		})
	}
	w.t.Cleanup(stop)
	return a, stop
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

// job is an elastic job of one GPU per worker that may wait at none.
func (w *world) job(id string, least, most int) {
	w.nomad.Register(nomadtest.Job{ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": least}}}})
}

// eventually waits for the counts of jobs.
func (w *world) eventually(want map[string]int) {
	w.t.Helper()
	must.Wait(w.t, wait.InitialSuccess(
		wait.ErrorFunc(func() error {
			got, _ := w.nomad.Counts()
			for id, n := range want {
				if got[id] != n {
					return fmt.Errorf("counts are %v, wanted %v", got, want)
				}
			}
			return nil
		}),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

func TestController_SharesTheClusterAndGrowsAgain(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.nomad.StopDelay = 30 * time.Millisecond
	w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	w.job("b", 2, 8)
	w.eventually(map[string]int{"a": 4, "b": 4})
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 8})
}

func TestController_QueuesWhatDoesNotFit(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.job("a", 3, 4)
	w.eventually(map[string]int{"a": 4})
	w.job("b", 2, 4)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		for _, j := range a.Status().Jobs {
			if j.ID == "b" {
				return j.State == api.StateWaiting
			}
		}
		return false
	}), wait.Timeout(10*time.Second), wait.Gap(5*time.Millisecond)))
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
}

func TestController_LeavesACompletedJobAlone(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 1, 8)
	w.job("b", 1, 8)
	w.eventually(map[string]int{"a": 4, "b": 4})
	_, scalesBefore := w.nomad.Calls()
	var touched atomic.Bool
	w.nomad.OnScale = func(job, _ string, _, _ int) {
		if job == "a" {
			touched.Store(true)
		}
	}
	must.True(t, w.nomad.Complete("a"))
	w.eventually(map[string]int{"b": 5}) // the completed worker's slot
	must.False(t, touched.Load())
	_, scales := w.nomad.Calls()
	must.Greater(t, scalesBefore, scales)

	// Registered again, the job is alive again.
	w.nomad.Purge("b")
	w.job("a", 1, 6)
	w.eventually(map[string]int{"a": 6})
}

func TestController_ACountSetByHandWins(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.ManualHold = 700 * time.Millisecond
	w.start(c)
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	must.NoError(t, w.nomad.Scale("a", 3))
	start := time.Now()
	w.eventually(map[string]int{"a": 8})
	must.GreaterEq(t, c.Planner.ManualHold, time.Since(start))
}

func TestController_ARegistrationIsRepaired(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	w.job("a", 1, 8) // count 0 again, as in its file
	w.eventually(map[string]int{"a": 8})
}

func TestController_MakesRoomForOthers(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 2, 8)
	w.eventually(map[string]int{"a": 8})
	w.nomad.Register(nomadtest.Job{ID: "inference", Count: 3, Max: 3, GPUs: 1, CPU: 100, Priority: 50})
	w.eventually(map[string]int{"a": 5})
	w.nomad.Register(nomadtest.Job{ID: "low", Count: 3, Max: 3, GPUs: 1, CPU: 100, Priority: 10})
	time.Sleep(300 * time.Millisecond) // nothing is to happen
	w.eventually(map[string]int{"a": 5})
}

func TestController_ReportsProblemsOnceAndLeavesTheJobAlone(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.nomad.Register(nomadtest.Job{ID: "bad", Max: 4, GPUs: 1, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"mim": 2}}}})
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4, "bad": 0})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		h, err := a.History(t.Context(), planner.JobKey{Namespace: "default", ID: "bad"})
		return err == nil && len(h) == 1 && h[0].Error
	}), wait.Timeout(10*time.Second), wait.Gap(10*time.Millisecond)))
	must.StrContains(t, a.Status().Ineligible[0].Problems[0], "did you mean min?")
}

// TestController_MistakesOfOthersDisturbNobody has jobs with mistakes of every kind
// beside one without.
func TestController_MistakesOfOthersDisturbNobody(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	bad := map[string]any{
		"text": "on", "list": []any{1.0, "x"}, "two": []any{map[string]any{}, map[string]any{}}, "number": 7.0, "true": true,
	}
	for key, values := range map[string][]any{
		"min": {"2", -1.0, 0.5, 1e300, nil, []any{}, map[string]any{}}, "weight": {0.0, "heavy", -1e308}, "sizes": {4.0, []any{}, []any{"x"}, []any{[]any{}}},
		"deadline": {"tomorrow", 3.0}, "queue": {"", 3.0}, "priority": {0.0, 101.0}, "suspendable": {"yes"}, "total_work": {-1.0}, "max": {1000.0},
		"step": {0.0}, "preferred": {99.0}, "": {1.0}, "unheard of\n": {1.0},
	} {
		for i, v := range values {
			bad[fmt.Sprintf("%q %d", key, i)] = []any{map[string]any{key: v}}
		}
	}
	n := 0
	for _, v := range bad {
		w.nomad.Register(nomadtest.Job{ID: fmt.Sprint("bad-", n), Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": v}})
		n++
	}
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4})
	w.job("second", 1, 4)
	w.eventually(map[string]int{"good": 2, "second": 2})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Ineligible) == n }), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	for _, x := range a.Status().Ineligible {
		must.SliceNotEmpty(t, x.Problems)
		for _, p := range x.Problems {
			must.StrHasPrefix(t, `group "workers": scaling.policy.kolo`, p)
		}
	}
	got, _ := w.nomad.Counts()
	for i := range n {
		must.Eq(t, 0, got[fmt.Sprint("bad-", i)])
	}
	must.Greater(t, 25, n)
}

func TestController_PolicyAndPauseTakeEffectAndOutliveTheAgent(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, stop := w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	must.NoError(t, a.Pause(t.Context(), "", planner.JobKey{Namespace: "default", ID: "a"}))
	must.NoError(t, a.SetPolicy(t.Context(), "", "default", "fifo"))
	must.Error(t, a.SetPolicy(t.Context(), "", "default", "no-such-policy"))
	stop()

	b, _ := w.start(w.config())
	w.job("b", 1, 8)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := b.Status()
		return s.Leading && len(s.Jobs) == 2 && s.Jobs[0].State == api.StateHeld && s.Pools[0].Policy == "fifo"
	}), wait.Timeout(10*time.Second), wait.Gap(5*time.Millisecond)))
	w.eventually(map[string]int{"a": 8, "b": 0})
	must.NoError(t, b.SetPolicy(t.Context(), "", "default", ""))
	must.NoError(t, b.Resume(t.Context(), "", planner.JobKey{}))
	w.eventually(map[string]int{"a": 4, "b": 4})
}

// TestController_ADeadlineStaysWhereItIs has a job whose deadline counts from its
// submission, the time of which Nomad moves with each scale.
func TestController_ADeadlineStaysWhereItIs(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, _ := w.start(w.config())
	deadline := func(count int) (at time.Time) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			for _, j := range a.Status().Jobs {
				if j.ID == "a" && j.Running == count {
					at = j.Asks.Deadline
					return true
				}
			}
			return false
		}), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
		return at
	}
	urgent := nomadtest.Job{ID: "a", Max: 8, GPUs: 1, CPU: 100, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{"deadline": "6h"}}}}
	before := time.Now()
	w.nomad.Register(urgent)
	first := deadline(8)
	must.True(t, !first.Before(before.Add(6*time.Hour)) && !first.After(time.Now().Add(6*time.Hour)), must.Sprint(first))
	w.job("b", 2, 8)
	must.Eq(t, first, deadline(4))
	w.nomad.Register(urgent) // again, while it trains
	w.eventually(map[string]int{"a": 4, "b": 4})
	must.Eq(t, first, deadline(4))

	t.Log("after a stop it is another submission")
	w.nomad.Stop("a")
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Ineligible) == 1 }), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	w.nomad.Register(urgent)
	must.True(t, deadline(4).After(first))
}

// TestController_CommandsThatComeTogether has Nomad take its time to write them.
func TestController_CommandsThatComeTogether(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.nomad.Fault = func(method, path string) int {
		if method == http.MethodPut && path == "/v1/var/"+store.OverridesPath {
			time.Sleep(20 * time.Millisecond)
		}
		return 0
	}
	a, stop := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(a.Leads), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	var g sync.WaitGroup
	for i := range 10 {
		g.Go(func() {
			test.NoError(t, a.Pause(t.Context(), "", planner.JobKey{Namespace: "default", ID: fmt.Sprint("j", i)}))
		})
		g.Go(func() { test.NoError(t, a.MayCommand(t.Context(), "")) })
	}
	g.Wait()
	a.mu.Lock()
	inForce := a.overrides.Paused
	a.mu.Unlock()
	must.Len(t, 10, inForce)
	stop()
	saved, _, err := a.store.LoadOverrides(t.Context())
	must.NoError(t, err)
	must.Len(t, 10, saved.Paused)
}

// TestController_ACommandIsOnTopOfWhatIsThere has the overrides written by another
// since this agent read it.
func TestController_ACommandIsOnTopOfWhatIsThere(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(a.Leads), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	must.NoError(t, a.Pause(t.Context(), "", planner.JobKey{Namespace: "default", ID: "mine"}))
	w.nomad.EditVariable(store.OverridesPath, func(items map[string]string) { items["data"] = `{"paused":["default/other"]}` })
	must.NoError(t, a.Pause(t.Context(), "", planner.JobKey{Namespace: "default", ID: "mine"}))
	saved, _, err := a.store.LoadOverrides(t.Context())
	must.NoError(t, err)
	must.Eq(t, []string{"default/other", "default/mine"}, saved.Paused)
}

// watchful fails the test when the live workers and those that Nomad was
// asked for ever need more than the capacity.
func (w *world) watchful(capacity int) {
	w.nomad.OnScale = watch(w.t, w.nomad, capacity)
}

func watch(t *testing.T, _ *nomadtest.Cluster, capacity int) func(string, string, int, int) {
	counts := map[string]int{} // under the cluster's lock
	return func(job, _ string, _, to int) {
		counts[job] = to
		sum := 0
		for _, n := range counts {
			sum += n
		}
		if sum > capacity {
			t.Errorf("counts %v exceed %d slots", counts, capacity)
		}
	}
}

// TestController_TwoAgentsAndAFailingNomad is the storm: two agents of which the
// leader keeps dying, faults of every kind, jobs that come and go.
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
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return !a.Status().Leading }), wait.Timeout(10*time.Second), wait.Gap(5*time.Millisecond)))
	w.job("b", 2, 8)
	away.Store(false)
	w.eventually(map[string]int{"a": 4, "b": 4})
}

func TestController_ProtectsAParkedJobWhileItWaits(t *testing.T) {
	w := newWorld(t, 1, 4)
	c := w.config()
	w.protectAfter = time.Millisecond
	w.start(c)
	w.job("a", 4, 4)
	w.eventually(map[string]int{"a": 4})
	w.job("b", 4, 4)
	tagged := func(want bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.nomad.Tagged("b") == want }),
			wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	}
	tagged(true)
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
	tagged(false)
}

// TestController_LetsGoOfAJobThatIsStopped has a job stopped while it waits: Nomad
// turns its switch off, so that it is left alone from then on.
func TestController_LetsGoOfAJobThatIsStopped(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.protectAfter = time.Millisecond
	w.start(w.config())
	w.job("a", 5, 5) // never fits
	tagged := func(want bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.nomad.Tagged("a") == want }),
			wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	}
	tagged(true)
	w.nomad.Stop("a")
	tagged(false)
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
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return b.Status().Leading }), wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
}

func TestController_SavesTheHistoryWhenItStops(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, stop := w.start(w.config())
	w.job("a", 1, 4)
	w.eventually(map[string]int{"a": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { s := a.Status(); return len(s.Jobs) == 1 && s.Jobs[0].Running == 4 }),
		wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	stop()
	saved, lost, err := a.store.LoadHistory(t.Context())
	must.NoError(t, errors.Join(lost, err))
	must.MapLen(t, 1, saved.Jobs)
}

// TestController_OldEventsBringNothingBack starts an agent on a Nomad whose event
// buffer speaks of workers of a job that is gone.
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
