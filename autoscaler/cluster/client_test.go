// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// An address that can never be reached is refused at once, not retried forever.
func TestNewClient_Address(t *testing.T) {
	c, err := NewClient(config.Nomad{Address: "127.0.0.1:4646"})
	must.NoError(t, err)
	must.Eq(t, "http://127.0.0.1:4646", c.Address())
	_, err = NewClient(config.Nomad{Address: "nope://x"})
	must.ErrorContains(t, err, `the address of Nomad (NOMAD_ADDR, nomad { address } or -nomad-address): "nope://x" begins with nope://; write http:// or https:// or unix://`)
}
