// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// overridesPath is the variable with the overrides.
const overridesPath = "kolo/overrides"

// world has a stand-in for Nomad, and the autoscalers that use it.
type world struct {
	t       *testing.T
	nomad   *nomadtest.Cluster
	server  *httptest.Server
	agents  int
	elastic map[string]any

	// Settings of autoscalers that are started; 0 means the default.
	protectAfter, probeTimeout time.Duration
	forecastEvery              time.Duration // 0 means never
	gpusEvery                  time.Duration
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
	c.Nomad.Token = "autoscaler"
	c.Leader.TTL, c.Leader.Delay = 600*time.Millisecond, 100*time.Millisecond
	c.Planner.Hold, c.Planner.Debounce, c.Planner.Tick, c.Planner.Progress = 0, 5*time.Millisecond, 200*time.Millisecond, 0
	c.Planner.PlacementTimeout = 2 * time.Second
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu"}
	return c
}

// start runs an autoscaler until stop is called or the test ends.
func (w *world) start(c *config.Config) (a *Controller, stop func()) {
	return w.startWith(c, nil)
}

// startWith starts an autoscaler with external policies.
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
	if a.forecastEvery = w.forecastEvery; a.forecastEvery == 0 {
		a.forecastEvery = 24 * time.Hour
	}
	if w.gpusEvery > 0 {
		a.gpusEvery = w.gpusEvery
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

// job registers an elastic job of one GPU per worker that may wait with no worker.
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

// watchful fails the test as soon as the live workers, and those that Nomad was asked for,
// need more than the capacity.
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
