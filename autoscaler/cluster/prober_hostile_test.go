// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// prober is one of a job whose only instance answers with h.
func prober(t *testing.T, h http.HandlerFunc) (*cluster.Prober, *nomadtest.Cluster, string) {
	job := httptest.NewServer(h)
	t.Cleanup(job.Close)
	nomad := nomadtest.New()
	at := strings.TrimPrefix(job.URL, "http://")
	nomad.Register(nomadtest.Job{ID: "train", Service: "train", At: []string{at}})
	ns := httptest.NewServer(nomad)
	t.Cleanup(ns.Close)
	client, err := cluster.NewClient(config.Nomad{Address: ns.URL, Timeout: time.Minute, Token: "secret"})
	must.NoError(t, err)
	return cluster.NewProber(client, 10*time.Second), nomad, at
}

var trainKey = identity.JobKey{Namespace: "default", ID: "train"}

// stepTimes are so many entries of step_seconds.
func stepTimes(n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(`"%d":{}`, i)
	}
	return strings.Join(entries, ",")
}

// TestProber_RefusesAnswers has a job send answers that would cost memory, or that are no
// status. No error repeats their content.
func TestProber_RefusesAnswers(t *testing.T) {
	const good = `{"job":"train","namespace":"default","step":7}`
	write := func(w http.ResponseWriter, text string) { _, _ = w.Write([]byte(text)) } // a reader that went away
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			write(w, text)
		}
	}
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		want string // of the error, "" for none
	}{
		"a status": {answer(good), ""},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			write(w, good)
		}, "did not answer JSON"},
		"an error with a status":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot); write(w, good) }, "answered 418"},
		"more than a mebibyte":     {answer(good[:1] + strings.Repeat(" ", 2<<20) + good[1:]), "more than 1048576 bytes"},
		"deep":                     {answer(`{"x":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}`), "not the JSON of a status"},
		"many step times":          {answer(`{"step_seconds":{` + stepTimes(5000) + `}}`), "step_seconds has 5000 entries"},
		"many resizes":             {answer(`{"resizes":[` + strings.TrimSuffix(strings.Repeat(`{},`, 5000), ",") + `]}`), "resizes has 5000 entries"},
		"a ring of negative size":  {answer(`{"size":-4}`), "size is -4"},
		"a resize past all":        {answer(`{"resizes":[{"from":1,"to":4611686018427387904}]}`), "a resize from 1 to 4611686018427387904"},
		"an impossible batch":      {answer(`{"adaptive":{"initial":32,"batch":1e300,"accumulation":1,"efficiency":1,"lr_factor":1}}`), "a number of adaptive is invalid"},
		"a batch without numbers":  {answer(`{"adaptive":{}}`), "a number of adaptive is invalid"},
		"an impossible rank":       {answer(`{"ranks":[{"rank":-1,"alloc_id":"a"}]}`), "rank -1 or its allocation ID is invalid"},
		"a long allocation":        {answer(`{"ranks":[{"rank":0,"alloc_id":"` + strings.Repeat("x", 65) + `"}]}`), "rank 0 or its allocation ID is invalid"},
		"a secret":                 {answer(`{"job":"SECRET","namespace":"SECRET"}`), "another job answers"},
		"a secret that is no JSON": {answer(`SECRET`), "not the JSON of a status"},
		"compressed without being asked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(good))
			_ = z.Close()
		}, "not the JSON of a status"},
		"a head without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			write(w, good)
		}, "headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := prober(t, func(w http.ResponseWriter, r *http.Request) {
				for _, h := range []string{"Authorization", "X-Nomad-Token", "Cookie"} {
					if r.Header.Get(h) != "" || r.Method != http.MethodGet {
						t.Errorf("%s of the autoscaler reached a job", h)
					}
				}
				tc.h(w, r)
			})
			got, _, err := p.Probe(t.Context(), trainKey, []string{"train"}, cluster.Endpoint{})
			if tc.want == "" {
				must.NoError(t, err)
				must.Eq(t, 7, got.Step)
				return
			}
			must.ErrorContains(t, err, tc.want)
			must.StrNotContains(t, err.Error(), "SECRET")
			must.Less(t, 300, len(err.Error()))
		})
	}
}

// TestProber_ConfirmLooksAgain: an instance disappears or moves after it answered and
// before the autoscaler acts on the answer.
func TestProber_ConfirmLooksAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*nomadtest.Cluster, string)
		want   string
	}{
		"nothing happened": {func(*nomadtest.Cluster, string) {}, ""},
		"it has gone":      {func(n *nomadtest.Cluster, _ string) { n.Register(nomadtest.Job{ID: "train", Service: "train"}) }, "no longer registered"},
		"another address": {func(n *nomadtest.Cluster, _ string) {
			n.Register(nomadtest.Job{ID: "train", Service: "train", At: []string{"127.0.0.1:9"}})
		}, "no longer registered"},
		"the port is another job's": {func(n *nomadtest.Cluster, at string) {
			n.Purge("train")
			n.Register(nomadtest.Job{ID: "other", Service: "train", At: []string{at}})
		}, "no longer registered"},
	} {
		t.Run(name, func(t *testing.T) {
			p, nomad, at := prober(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"job":"train","namespace":"default","alloc_id":"train-at-0","complete":true}`)) // a reader that went away
			})
			got, e, err := p.Probe(t.Context(), trainKey, []string{"train"}, cluster.Endpoint{})
			must.NoError(t, err)
			tc.change(nomad, at)
			err = p.Confirm(t.Context(), trainKey, []string{"train"}, e, got)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}
