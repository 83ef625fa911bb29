// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/contract"
)

// TestContract checks the stand-in with the assertions that e2e/autoscaler makes of a real
// Nomad. The stand-in must answer only requests that these assertions cover.
func TestContract(t *testing.T) {
	c := New()
	c.AddNodes(3, 1)
	c.AddToken("manager", Token{Accessor: "manager-0000", Name: "manager", Namespaces: []string{"default", "elsewhere"}})
	var called sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := c.mux.Handler(r)
		called.Store(pattern, true)
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	client, err := api.NewClient(&api.Config{Address: s.URL, SecretID: "manager"})
	must.NoError(t, err)
	contract.Check(t, &contract.Nomad{
		Client: client, Nodes: 3,
		Register: func(_ *testing.T, job contract.Job) {
			j := Job{ID: job.ID, Count: job.Count, Min: job.Min, Max: max(job.Count, job.Max), GPUs: 1, CPU: 100, Priority: 50}
			if job.Max > 0 {
				j.Elastic = map[string]any{"kolo": []any{map[string]any{}}}
			}
			if job.Service {
				j.Service, j.At = job.ID, []string{"192.0.2.1:7000"}
			}
			c.Register(j)
		},
		Finish: func(_ *testing.T, job string) {
			for c.Complete(job) {
			}
		},
		Eligible: func(_ *testing.T, node string, eligible bool) {
			c.ChangeNode(slices.Index(c.order, node), func(n *Node) { n.Eligible = eligible })
		},
		Stranger: func(*testing.T) string {
			c.AddToken("stranger", Token{Accessor: "stranger-0000", Name: "stranger"})
			c.Deny("stranger")
			return "stranger"
		},
		Before: func(*testing.T, string) bool { return false },
	})
	for pattern := range c.routes() {
		_, ok := called.Load(pattern)
		must.True(t, ok, must.Sprint("no assertion calls ", pattern))
	}
}
