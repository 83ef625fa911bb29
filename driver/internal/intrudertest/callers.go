// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package intrudertest

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
)

// foreignAddr is where Dialer calls from.
var foreignAddr = netip.MustParseAddr("127.0.0.2")

// Callers judges the peers of a loopback port by their address: those that call by
// Dialer are refused.
type Callers struct{ Refused atomic.Int64 }

// Admit returns nil for a peer that does not come from the foreign address.
func (c *Callers) Admit(_, remote netip.AddrPort) error {
	if remote.Addr() == foreignAddr {
		c.Refused.Add(1)
		return errors.New("from a foreign address")
	}
	return nil
}

// Dialer dials from the foreign address.
func Dialer() *net.Dialer { return &net.Dialer{LocalAddr: &net.TCPAddr{IP: foreignAddr.AsSlice()}} }
