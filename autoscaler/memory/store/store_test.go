// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// The saved history shrinks.
func TestStore_RemovesWhatIsNotThereAnyMore(t *testing.T) {
	web := httptest.NewServer(nomadtest.New())
	t.Cleanup(web.Close)
	client, err := api.NewClient(&api.Config{Address: web.URL})
	must.NoError(t, err)
	s := New(client, "default", nil)
	yes := func() error { return nil }
	noise := make([]byte, 200<<10)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for _, state := range [][]byte{noise, noise[:1000], nil} {
		h := history.New()
		h.Jobs[identity.JobKey{Namespace: "default", ID: "a"}] = &history.Job{}
		if state != nil {
			h.States["gpu"] = state
		}
		snap, err := Encode(h)
		must.NoError(t, err)
		must.NoError(t, s.SaveHistory(t.Context(), snap, yes))
		back, lost, err := s.LoadHistory(t.Context())
		must.NoError(t, errors.Join(lost, err))
		must.Eq(t, state, back.States["gpu"])
		must.MapLen(t, 1, back.Jobs)
	}
}

// A second autoscaler removes what the first one saved. The first then loads the variables
// from Nomad, and not those that it remembers.
func TestStore_AnotherLedMeanwhile(t *testing.T) {
	web := httptest.NewServer(nomadtest.New())
	t.Cleanup(web.Close)
	client, err := api.NewClient(&api.Config{Address: web.URL})
	must.NoError(t, err)
	first, second := New(client, "default", nil), New(client, "default", nil)
	save := func(s *Store, ids ...string) {
		_, lost, err := s.LoadHistory(t.Context())
		must.NoError(t, errors.Join(lost, err))
		h := history.New()
		for _, id := range ids {
			h.Jobs[identity.JobKey{Namespace: "default", ID: id}] = &history.Job{}
		}
		snap, err := Encode(h)
		must.NoError(t, err)
		must.NoError(t, s.SaveHistory(t.Context(), snap, func() error { return nil }))
	}
	save(first, "a", "b")
	save(second, "b")
	h, lost, err := first.LoadHistory(t.Context())
	must.NoError(t, errors.Join(lost, err))
	must.MapLen(t, 1, h.Jobs)
}
