// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package scaling

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// status decodes a scaling status of one group "workers".
func status(t *testing.T, desired int, events string) *api.JobScaleStatusResponse {
	t.Helper()
	var s api.JobScaleStatusResponse
	must.NoError(t, json.Unmarshal([]byte(`{"TaskGroups":{"workers":{"Desired":`+strconv.Itoa(desired)+`,"Events":[`+events+`]}}}`), &s))
	return &s
}

func of(train, spare int) map[string]elastic.GroupSize {
	return map[string]elastic.GroupSize{"workers": {Train: train, Spare: spare}}
}

func TestSizes(t *testing.T) {
	const nineOne = `{"Time":5,"Count":9,"Meta":{"kolo":{"cause":"spare","spare":1}}}`
	for name, c := range map[string]struct {
		desired int
		events  string
		want    map[string]elastic.GroupSize
	}{
		"never scaled":             {9, ``, nil},
		"one spare":                {9, nineOne, of(8, 1)},
		"no spare any longer":      {8, nineOne + `,{"Time":6,"Count":8,"Meta":{"kolo":{"spare":0}}}`, of(8, 0)},
		"registered again":         {5, nineOne, nil},
		"scaled by a user":         {9, nineOne + `,{"Time":7,"Count":9}`, nil},
		"a report changes nothing": {9, `{"Time":8,"Message":"a problem","Meta":{"kolo":{"problem":true}}},` + nineOne, of(8, 1)},
		"a job without spares":     {9, `{"Time":5,"Count":9,"Meta":{"kolo":{"cause":"grow"}}}`, nil},
		"more spares than count":   {1, `{"Time":5,"Count":1,"Meta":{"kolo":{"spare":3}}}`, of(0, 1)},
		"not a number":             {9, `{"Time":5,"Count":9,"Meta":{"kolo":{"spare":"x"}}}`, nil},
		"of another program":       {9, `{"Time":5,"Count":9,"Meta":{"kolo":"x"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, c.want, sizes(status(t, c.desired, c.events))) })
	}
}

// The newest event about the batch counts, whatever happened to the count.
func TestKeepBatch(t *testing.T) {
	const keep, adapt = `{"Time":5,"Meta":{"kolo":{"adapt_batch":false}}}`, `{"Time":6,"Meta":{"kolo":{"adapt_batch":true}}}`
	const scaled = `{"Time":9,"Count":9,"Meta":{"kolo":{"cause":"grow"}}}`
	for events, want := range map[string][2]bool{
		``:                  {false, false},
		scaled:              {false, false},
		keep:                {true, true},
		scaled + `,` + keep: {true, true},
		adapt + `,` + keep:  {false, true},
		keep + `,` + adapt:  {false, true},
		`{"Time":5,"Meta":{"kolo":{"adapt_batch":"no"}}}`:   {false, false},
		`{"Time":5,"Meta":{"kolo":[false]}}`:                {false, false},
		`{"Time":5,"Meta":{"other":{"adapt_batch":false}}}`: {false, false},
	} {
		got, known := keepBatch(status(t, 9, events))
		must.Eq(t, want, [2]bool{got, known}, must.Sprint(events))
	}
	a, b := Stated{Groups: of(8, 1)}, Stated{Groups: of(8, 1), BatchStated: true}
	must.True(t, a.equal(&a))
	must.False(t, a.equal(&b))
}

// A change is reported as soon as Nomad answers, and an identity that may not read the job
// keeps no one waiting.
func TestWatch(t *testing.T) {
	var mu sync.Mutex
	desired, forbidden, index := 9, false, 10
	changed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("index") != "" {
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if forbidden {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		must.Eq(t, "/v1/job/train/scale", r.URL.Path)
		must.Eq(t, "secret", r.Header.Get("X-Nomad-Token"))
		w.Header().Set("X-Nomad-Index", strconv.Itoa(index))
		w.Header().Set("X-Nomad-LastContact", "0")
		w.Header().Set("X-Nomad-KnownLeader", "true")
		_ = json.NewEncoder(w).Encode(status(t, desired, `{"Time":5,"Count":`+strconv.Itoa(desired)+`,"Meta":{"kolo":{"spare":1}}}`))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "nomad_token")
	must.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	r, err := New(config.Config{NomadAddr: server.URL, Namespace: "default", JobID: "train"}, nomadapi.Token{File: file}, hclog.NewNullLogger())
	must.NoError(t, err)
	r.retry = time.Millisecond

	ctx, cancel := context.WithCancel(context.Background())
	got, ready := make(chan map[string]elastic.GroupSize, 9), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r.Watch(ctx, func(s Stated) {
			if s.Denied != (s.Groups == nil) {
				t.Errorf("sizes %v, and reading is denied: %v", s.Groups, s.Denied)
			}
			got <- s.Groups
		}, func() { close(ready) })
	})
	<-ready
	must.Eq(t, of(8, 1), <-got)
	mu.Lock()
	desired, index = 7, 11
	mu.Unlock()
	close(changed)
	must.Eq(t, of(6, 1), <-got)

	mu.Lock()
	forbidden = true // old sizes must not keep new hosts out of the ring for good
	mu.Unlock()
	must.Nil(t, <-got)
	mu.Lock()
	forbidden = false
	mu.Unlock()
	must.Eq(t, of(6, 1), <-got)
	cancel()
	wg.Wait()

	mu.Lock()
	forbidden = true
	mu.Unlock()
	ctx, cancel = context.WithCancel(context.Background())
	ready = make(chan struct{})
	wg.Go(func() {
		r.Watch(ctx, func(Stated) { t.Error("reported") }, func() { close(ready) })
	})
	<-ready
	cancel()
	wg.Wait()
}
