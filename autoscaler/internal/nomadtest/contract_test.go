// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/contract"
)

// TestContract holds the stand-in to what is asserted of a real Nomad in
// e2e/autoscaler.
func TestContract(t *testing.T) {
	c := New()
	c.AddNodes(3, 1)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	client, err := api.NewClient(&api.Config{Address: s.URL, SecretID: "any"})
	must.NoError(t, err)
	contract.Check(t, &contract.Nomad{Client: client, Nodes: 3, Register: func(_ *testing.T, job string, count, most int) {
		j := Job{ID: job, Count: count, Max: max(count, most), GPUs: 1, CPU: 100, Priority: 50}
		if most > 0 {
			j.Elastic = map[string]any{"kolo": []any{map[string]any{}}}
		}
		c.Register(j)
	}})
}
