// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// TestPages reads a list of several pages that changes while it is read.
func TestPages(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("index")+" "+q.Get("next_token")+" "+q.Get("filter"))
		from := max(0, slices.Index(all, q.Get("next_token")))
		to := min(from+2, len(all))
		if to < len(all) {
			w.Header().Set("X-Nomad-NextToken", all[to])
		}
		index := 7 + len(asked) // another change before each answer
		if q.Get("index") == "30" {
			index = 30 // the wait ran out
		}
		w.Header().Set("X-Nomad-LastContact", "0")
		w.Header().Set("X-Nomad-Index", strconv.Itoa(index))
		must.NoError(t, json.NewEncoder(w).Encode(all[from:to]))
	}))
	defer s.Close()
	c, err := NewClient(config.Nomad{Address: s.URL, Namespace: "*", Timeout: time.Second})
	must.NoError(t, err)
	w := NewWatcher(c, time.Minute, hclog.NewNullLogger())

	var got []string
	index, err := pages(t.Context(), w, "/v1/things", 3, nil, "x == 1", func(page []string) { got = append(got, page...) })
	must.NoError(t, err)
	must.Eq(t, all, got)
	must.Eq(t, 8, index, must.Sprint("a change between two pages would be missed"))
	must.Eq(t, []string{"3  x == 1", " c x == 1", " e x == 1"}, asked, must.Sprint("only the first page waits"))

	got = nil
	index, err = pages(t.Context(), w, "/v1/things", 30, nil, "", func(page []string) { got = append(got, page...) })
	must.NoError(t, err)
	must.Eq(t, 30, index)
	must.SliceEmpty(t, got)

	_, err = pages(t.Context(), w, "/v1/things", 3, nil, "", func(page []int) {})
	must.ErrorContains(t, err, "listing /v1/things")
}
