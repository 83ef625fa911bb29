// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
)

// In a group with its own network, the client's address has only the mapped ports.
func TestServiceAddressOfAnOwnNetwork(t *testing.T) {
	own := &agent{config: config.Config{Service: "ring", OwnNetwork: true}}
	must.NoError(t, own.checkAddress("127.0.0.1:25000"))
	err := own.checkAddress("192.0.2.1:31000")
	must.EqError(t, err, `service "ring": is registered at 192.0.2.1:31000, and no interface has the address 192.0.2.1 of the group's own network; write address_mode = "alloc" in the service block`)
	hosts := &agent{config: config.Config{Service: "ring"}}
	must.NoError(t, hosts.checkAddress("192.0.2.1:31000"), must.Sprint("a client may be known by an address that it does not have"))
}
