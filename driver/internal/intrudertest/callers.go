// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package intrudertest

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
)

// foreignAddr is the address that Dialer calls from.
var foreignAddr = netip.MustParseAddr("127.0.0.2")

// Callers admits the peers of a loopback port by their address: it refuses those
// that use Dialer.
type Callers struct{ Refused atomic.Int64 }

// Admit refuses a peer that has the address of Dialer, and returns nil for all
// others.
func (c *Callers) Admit(_, remote netip.AddrPort) error {
	if remote.Addr() == foreignAddr {
		c.Refused.Add(1)
		return errors.New("from a foreign address")
	}
	return nil
}

// Dialer dials from the foreign address.
func Dialer() *net.Dialer { return &net.Dialer{LocalAddr: &net.TCPAddr{IP: foreignAddr.AsSlice()}} }
