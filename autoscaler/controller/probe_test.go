// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
)

// A job that starts answers only after a while, and is asked until then.
func TestSilence(t *testing.T) {
	var s silence
	t0 := time.Unix(1_800_000_000, 0)
	for after := time.Duration(0); after < silentProbe; after += time.Second {
		s = s.extend(t0.Add(after))
		must.True(t, s.until.IsZero())
	}
	s = s.extend(t0.Add(silentProbe))
	must.Eq(t, t0.Add(2*silentProbe), s.until)
	s = s.extend(t0.Add(2 * silentProbe))
	must.Eq(t, t0.Add(3*silentProbe), s.until)
}

// One job accepts a request and never answers.
func TestController_OneJobThatHangsDelaysNoOther(t *testing.T) {
	asked := make(chan struct{}, 1)
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"job":"answers","namespace":"default"}`)) // a reader that went away
	}))
	t.Cleanup(answers.Close)
	hanging := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(hanging) // once, or the test fails: it is still being asked
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)

	w := newWorld(t, 1, 4)
	w.probeTimeout = 10 * time.Minute
	c := w.config()
	c.Planner.Progress = 5 * time.Millisecond
	w.start(c)
	job := func(id, url string) {
		w.nomad.Register(nomadtest.Job{ID: id, Max: 2, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{strings.TrimPrefix(url, "http://")},
			Elastic: map[string]any{"kolo": []any{map[string]any{}}}})
	}
	job("hangs", hangs.URL)
	wait := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	wait(hanging, "the job was not asked")
	job("answers", answers.URL)
	for range 5 {
		wait(asked, "the other job is not asked meanwhile")
	}
}

// More jobs never answer than are probed at the same time.
func TestController_JobsThatHangDelayNoneThatAnswers(t *testing.T) {
	answers := newAnswering(t, saying(`{"job":"answers","namespace":"default"}`))
	hangs := newAnswering(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w := newWorld(t, 1, 4*probesAtOnce)
	w.probeTimeout = 10 * time.Minute
	c := w.config()
	c.Planner.Progress = 5 * time.Millisecond
	w.start(c)
	job := func(id, at string) {
		w.nomad.Register(nomadtest.Job{ID: id, Max: 1, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{at}, Elastic: w.elastic})
	}
	job("answers", answers.at)
	asked(t, answers, 2)
	for i := range 2 * probesAtOnce {
		job(fmt.Sprint("hangs-", i), hangs.at)
	}
	asked(t, hangs, probesAtOnce)
	asked(t, answers, 5)
}
