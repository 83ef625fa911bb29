// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// answering is a tenant's own server that answers for a training's status.
type answering struct {
	at    string // host:port
	asked atomic.Int64
}

func newAnswering(t *testing.T, h func(w http.ResponseWriter, r *http.Request)) *answering {
	a := &answering{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	a.at = strings.TrimPrefix(s.URL, "http://")
	return a
}

// saying returns a handler that answers every request with a text.
func saying(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text)) // a reader that went away
	}
}

// probed runs an autoscaler that probes all the time, and a job that edit changes.
func probed(t *testing.T, edit func(*nomadtest.Job)) (*world, *Controller) {
	w := newWorld(t, 1, 4)
	c := w.config()
	c.Planner.Progress = 2 * time.Millisecond
	a, _ := w.start(c)
	j := nomadtest.Job{ID: "victim", Max: 2, GPUs: 1, CPU: 100, Priority: 50, Service: "victim", Elastic: w.elastic}
	edit(&j)
	w.nomad.Register(j)
	w.eventually(map[string]int{"victim": 2})
	return w, a
}

// victim returns the job's status.
func victim(a *Controller) api.JobStatus {
	for _, j := range a.Status().Jobs {
		if j.ID == "victim" {
			return j
		}
	}
	return api.JobStatus{}
}

func asked(t *testing.T, s *answering, times int64) {
	t.Helper()
	from := s.asked.Load()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return s.asked.Load() >= from+times }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
}

// Another process answers at the job's address. Its answers must neither freeze the job nor
// count as the job's progress.
func TestProbe_BelievesNoStranger(t *testing.T) {
	for name, text := range map[string]string{
		"another job":         `{"job":"other","namespace":"default","alloc_id":"reg","step":77,"complete":true}`,
		"another namespace":   `{"job":"victim","namespace":"other","alloc_id":"reg","step":77,"complete":true}`,
		"no names at all":     `{"step":77,"complete":true}`,
		"another allocation":  `{"job":"victim","namespace":"default","alloc_id":"another","step":77,"complete":true}`,
		"not JSON":            `complete`,
		"numbers past bounds": `{"job":"victim","namespace":"default","size":1000000000000,"step":77}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newAnswering(t, saying(text))
			w, a := probed(t, func(j *nomadtest.Job) { j.At = []string{s.at} })
			asked(t, s, 3)
			w.nomad.Register(nomadtest.Job{ID: "second", Max: 4, GPUs: 1, CPU: 100, Priority: 50, Elastic: w.elastic})
			w.eventually(map[string]int{"second": 2})
			asked(t, s, 1)
			must.Eq(t, api.StateRunning, victim(a).State)
			must.Eq(t, 0, victim(a).Step)
		})
	}
}

// A job redirects the autoscaler to an address of the job's choice.
func TestProbe_FollowsNoRedirect(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			metadata := newAnswering(t, saying(`{"job":"victim","namespace":"default","step":77}`))
			s := newAnswering(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://"+metadata.at+"/latest/meta-data", code)
			})
			_, a := probed(t, func(j *nomadtest.Job) { j.At = []string{s.at} })
			asked(t, s, 3)
			must.Eq(t, 0, metadata.asked.Load())
			must.Eq(t, 0, victim(a).Step)
		})
	}
}

// A job registers an address of its choice, as address and address_mode in a service block
// allow.
func TestProbe_AsksOnlyWhatNomadReserved(t *testing.T) {
	internal := newAnswering(t, saying(`{"job":"victim","namespace":"default","step":77}`))
	own := newAnswering(t, saying(`{"job":"victim","namespace":"default","step":5}`))
	_, port, _ := strings.Cut(own.at, ":")

	t.Log("another's port")
	w, a := probed(t, func(j *nomadtest.Job) { j.At, j.Claim = []string{own.at}, internal.at })
	w.nomad.Register(nomadtest.Job{ID: "beside", Max: 1, GPUs: 1, CPU: 100, Priority: 50, Service: "beside", At: []string{own.at}, Elastic: w.elastic})
	asked(t, own, 5)
	must.Eq(t, 0, internal.asked.Load())
	must.Eq(t, 0, victim(a).Step)

	t.Log("its own port at another's address: its own address is asked")
	_, a = probed(t, func(j *nomadtest.Job) { j.At, j.Claim = []string{own.at}, "169.254.169.254:"+port })
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return victim(a).Step == 5 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
}

// The training's report that it is complete holds the job for a time, but only Nomad's
// report freezes it.
func TestProbe_ACompleteTrainingIsHeldAndNotFrozen(t *testing.T) {
	var alloc atomic.Pointer[string]
	complete := func(w http.ResponseWriter, r *http.Request) {
		saying(fmt.Sprintf(`{"job":"victim","namespace":"default","alloc_id":%q,"complete":true}`, *alloc.Load()))(w, r)
	}
	none := ""
	alloc.Store(&none)
	s := newAnswering(t, complete)
	w, a := probed(t, func(j *nomadtest.Job) { j.At = []string{s.at} })

	t.Log("an answer that names no allocation is not believed")
	asked(t, s, 5)
	must.Eq(t, api.StateRunning, victim(a).State)

	id := w.nomad.Workers("victim")[0]
	alloc.Store(&id)
	state := func(want string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return victim(a).State == want }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	}
	state(api.StateHeld)
	must.StrContains(t, victim(a).HoldReason, "its training reports that it is complete")
	must.True(t, w.nomad.Complete("victim"))
	state(api.StateComplete)
}

// A job reports its ring, and then stops reporting. After the next change, its last report
// is outdated.
func TestProbe_ARingIsOfAfterTheLastChange(t *testing.T) {
	var silent atomic.Bool
	s := newAnswering(t, func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		saying(`{"job":"victim","namespace":"default","size":2}`)(w, r)
	})
	_, a := probed(t, func(j *nomadtest.Job) { j.At = []string{s.at} })
	known := func(change bool) (size int, late bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		j := a.job(identity.JobKey{Namespace: "default", ID: "victim"})
		if change {
			j.LastChange = time.Now()
		}
		return j.Size, j.stale()
	}
	reported := func() bool {
		size, late := known(false)
		return size == 2 && !late
	}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(reported), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	silent.Store(true)
	asked(t, s, 2) // the second after the last answer was taken in
	known(true)
	asked(t, s, 3)
	size, late := known(false)
	must.Eq(t, 2, size)
	must.True(t, late)

	silent.Store(false)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(reported), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
}
