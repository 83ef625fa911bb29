// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"strings"
	"testing"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/contract"
)

// contract holds a real Nomad to what the stand-in of the other tests is held to, with
// workers of more than half a node.
func (w *world) contract(t *testing.T) {
	contract.Check(t, &contract.Nomad{Client: w.API, Nodes: len(w.Nodes), Register: func(t *testing.T, job string, count, most int) {
		t.Helper()
		large := strings.NewReplacer("cpu    = 1000", "cpu    = 3000", "max = 12", "max = 2", "kolo { KOLO }", "kolo {}", "NAME", job)
		if most > 0 {
			w.register(t, large.Replace(jobHCL))
			return
		}
		w.rigid(t, job, count, "", large)
	}})
}
