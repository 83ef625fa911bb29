// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// TestProber_GivesUp probes a job of many workers: first none of them answers, and then one
// does.
func TestProber_GivesUp(t *testing.T) {
	var asked atomic.Int64
	var addresses []string
	serve := func(h http.HandlerFunc) {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		addresses = append(addresses, strings.TrimPrefix(s.URL, "http://"))
	}
	for range 20 {
		serve(func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			<-r.Context().Done()
		})
	}
	nomad := nomadtest.New()
	nomad.Register(nomadtest.Job{ID: "train", Service: "train", At: addresses})
	ns := httptest.NewServer(nomad)
	defer ns.Close()
	client, err := cluster.NewClient(config.Nomad{Address: ns.URL, Timeout: time.Minute})
	must.NoError(t, err)
	p := cluster.NewProber(client, 50*time.Millisecond)
	key := identity.JobKey{Namespace: "default", ID: "train"}
	_, _, err = p.Probe(t.Context(), key, []string{"train"}, cluster.Endpoint{Alloc: "train-at-0", Address: netip.MustParseAddrPort(addresses[0])})
	must.Error(t, err)
	must.Between(t, 1, asked.Load(), 4)

	t.Log("one of them answers, and is found sooner or later")
	serve(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"job":"train","namespace":"default","size":3}`)) // a reader that went away
	})
	at := addresses[20]
	nomad.Register(nomadtest.Job{ID: "train", Service: "train", At: append(addresses[:5:5], at)})
	p = cluster.NewProber(client, 100*time.Millisecond)
	for {
		got, from, err := p.Probe(t.Context(), key, []string{"train"}, cluster.Endpoint{})
		if err == nil {
			must.Eq(t, at, from.Address.String())
			must.Eq(t, 3, got.Size)
			return
		}
	}
}
