// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// A GPU has no utilization if its value cannot be parsed.
func TestClient_Utilization(t *testing.T) {
	const at = "2026-01-02T03:04:05Z"
	for stats, want := range map[string]map[string]float64{
		`{}`:                   {},
		`{"DeviceStats":null}`: {},
		device(at, `{"GPU utilization":{"Unit":"%","IntNumeratorVal":0}}`):     {"g": 0},
		device(at, `{"GPU utilization":{"Unit":"%","IntNumeratorVal":87}}`):    {"g": 87},
		device(at, `{"GPU utilization":{"Unit":"%","FloatNumeratorVal":0.5}}`): {"g": 0.5},
		device(at, `{"GPU utilization":{"Unit":"%","StringVal":"N/A"}}`):       {},
		device(at, `{"GPU utilization":{"Unit":"%","IntNumeratorVal":-1}}`):    {},
		device(at, `{"GPU utilization":{"IntNumeratorVal":0}}`):                {},
		device(at, `{"Memory utilization":{"Unit":"%","IntNumeratorVal":0}}`):  {},
		device(at, `null`): {},
		device("0001-01-01T00:00:00Z", `{"GPU utilization":{"Unit":"%","IntNumeratorVal":0}}`): {},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/v1/client/stats?node_id=n%2F1" {
				t.Error(r.URL)
			}
			_, _ = fmt.Fprint(w, stats) // a reader that went away
		}))
		c, err := NewClient(config.Nomad{Address: s.URL, Timeout: time.Minute})
		must.NoError(t, err)
		read, err := c.Utilization(t.Context(), "n/1")
		must.NoError(t, err)
		got := map[string]float64{}
		for id, u := range read {
			got[id] = u.Percent
			must.Eq(t, at, u.At.Format(time.RFC3339))
		}
		must.Eq(t, want, got, must.Sprint(stats))
		s.Close()
	}
}

// device returns statistics of one GPU.
func device(at, attributes string) string {
	return `{"DeviceStats":[{"Vendor":"nvidia","Type":"gpu","Name":"x","InstanceStats":{"g":{"Timestamp":"` + at + `","Stats":{"Attributes":` + attributes + `}}}}]}`
}

// The GPUs of a job are known if all its allocations run on nodes that are ready.
func TestWatcher_GPUsOf(t *testing.T) {
	key := identity.JobKey{Namespace: "default", ID: "a"}
	at := func(id string, edit func(*alloc)) *alloc {
		a := &alloc{id: id, job: key, node: "ready", running: true, made: 7, devices: []heldDevices{{group: "nvidia/gpu/x", ids: []string{"g-" + id}}}}
		edit(a)
		return a
	}
	ready, down := &node{wireNode: wireNode{Status: api.NodeStatusReady}}, &node{wireNode: wireNode{Status: api.NodeStatusDown}}
	for what, tc := range map[string]struct {
		edit func(*alloc) // of the second allocation
		want int
	}{
		"both run":               {func(*alloc) {}, 2},
		"one has no GPU":         {func(a *alloc) { a.devices = nil }, 1},
		"one has another device": {func(a *alloc) { a.devices[0].group = "xilinx/fpga/x" }, 1},
		"one is stopped":         {func(a *alloc) { a.ending, a.running = true, false }, 1},
		"one has ended":          {func(a *alloc) { a.over, a.running = true, false }, 1},
		"one is pending":         {func(a *alloc) { a.running = false }, 0},
		"resources are unknown":  {func(a *alloc) { a.bare, a.devices = true, nil }, 0},
		"node is down":           {func(a *alloc) { a.node = "down" }, 0},
		"node is unknown":        {func(a *alloc) { a.node = "gone" }, 0},
		"another job's":          {func(a *alloc) { a.job.ID, a.running = "b", false }, 1},
	} {
		w := &Watcher{store: newStore()}
		w.store.nodes["ready"], w.store.nodes["down"] = ready, down
		w.store.allocs["1"], w.store.allocs["2"] = at("1", func(*alloc) {}), at("2", tc.edit)
		got := w.GPUsOf(map[identity.JobKey]bool{key: true})
		must.Len(t, tc.want, got[key].GPUs, must.Sprint(what))
		if tc.want > 0 {
			must.Eq(t, 7, got[key].Newest)
		}
	}
}
