// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// failing returns a proxy in front of Nomad that fails on demand.
func failing(t *testing.T, nomad string) (address string, mode *atomic.Int32) {
	target, err := url.Parse(nomad)
	must.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = nil
	mode = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch mode.Load() {
		case 1: // away
			panic(http.ErrAbortHandler)
		case 2: // errors and slowness
			time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
			if n := rand.IntN(3); n < 2 {
				http.Error(rw, "on demand", []int{http.StatusTooManyRequests, http.StatusInternalServerError}[n])
				return
			}
		}
		proxy.ServeHTTP(rw, r)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL, mode
}

func (w *world) failingNomad(t *testing.T) {
	address, mode := failing(t, w.Address)
	// The policy keeps its plan while nothing happens, and a previous leader has saved one.
	d := w.agentWith(t, "one", fmt.Sprintf(strings.Replace(configuration, `"elastic-fifo"`, `"kolo"`, 1), address))
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "a", "min = 1")
	w.eventually(t, 30*time.Second, map[string]int{"a": slots})
	before := w.ids(t, "a")

	t.Log("Nomad is away for as long as a leadership lasts")
	mode.Store(1)
	waitFor(t, 30*time.Second, "the leader to step down", func() bool { return !d.leads() })
	w.submit(t, "b", "min = 2")
	time.Sleep(2 * time.Second)
	must.Eq(t, before, w.ids(t, "a"), must.Sprint("training was disturbed"))

	t.Log("then it is slow and mostly refuses")
	mode.Store(2)
	time.Sleep(10 * time.Second)
	mode.Store(0)
	w.eventually(t, 5*time.Minute, map[string]int{"a": 6, "b": 6})
	w.neverTooMuch(t, "a", "b")
	w.purge(t, "a", "b")
}

func (w *world) killedLeaders(t *testing.T) {
	agents := []*daemon{w.agent(t, "k0", w.Address), w.agent(t, "k1", w.Address)}
	var names []string
	for round := range 3 {
		leader := -1
		waitFor(t, 90*time.Second, "a leader", func() bool {
			for i, d := range agents {
				if d.leads() {
					leader = i
				}
			}
			return leader >= 0
		})
		must.False(t, agents[1-leader].leads(), must.Sprint("two leaders"))
		out, err := agents[1-leader].kolo("policy", "set", "elastic-fifo")
		must.NoError(t, err, must.Sprint("the follower did not pass it on: ", out))
		name := fmt.Sprint("r", round)
		names = append(names, name)
		w.submit(t, name, "min = 1")
		time.Sleep(time.Duration(rand.IntN(900)) * time.Millisecond) // into the resizes
		agents[leader].kill(syscall.SIGKILL)
		agents[leader] = w.agent(t, fmt.Sprint("k", round+2), w.Address)
	}
	w.eventually(t, 2*time.Minute, map[string]int{"r0": 4, "r1": 4, "r2": 4})
	w.neverTooMuch(t, names...)

	t.Log("a worker completes: the autoscaler never changes that job again, and others get its room")
	w.purge(t, names...)
	done := filepath.Join(w.dir, "done")
	w.completing(t, "finishing", done)
	w.submit(t, "other", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"finishing": 6, "other": 6})
	before := w.version(t, "finishing")
	must.NoError(t, os.WriteFile(done, nil, 0o600))
	w.eventually(t, time.Minute, map[string]int{"other": 7})
	must.Eq(t, before, w.version(t, "finishing"))
	names = []string{"finishing", "other"}
	w.purge(t, names...)
}

// completing registers a job whose workers succeed as soon as the file exists.
func (w *world) completing(t *testing.T, name, file string) {
	t.Helper()
	hcl := strings.ReplaceAll(strings.ReplaceAll(jobHCL, "NAME", name), "kolo { KOLO }", "kolo {}")
	hcl = strings.ReplaceAll(hcl, "/bin/sleep", "/bin/sh")
	hcl = strings.ReplaceAll(hcl, `["100000"]`, fmt.Sprintf(`["-c", "while [ ! -e %s ] || [ $NOMAD_ALLOC_INDEX != 0 ]; do sleep 0.1; done"]`, file))
	w.register(t, hcl)
}

func (w *world) version(t *testing.T, job string) uint64 {
	t.Helper()
	j, _, err := w.API.Jobs().Info(job, nil)
	must.NoError(t, err)
	return *j.Version
}

func (w *world) ids(t *testing.T, job string) []string {
	t.Helper()
	running, err := w.Running(t.Context(), job)
	must.NoError(t, err)
	var out []string
	for _, a := range running {
		out = append(out, a.ID)
	}
	return out
}
