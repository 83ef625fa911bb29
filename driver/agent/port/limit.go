// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// limiter bounds how many connections there are, in total and from one address. At a bound,
// a new connection replaces an old one: one from the same address if that has too many,
// otherwise one from the address with the most. So a flood from few addresses displaces no
// connections of others.
//
// The connection to close is chosen at random. Always choosing the oldest would hit an
// honest peer, overtaken by a flood from its address while it authenticates itself.
// Authentication takes milliseconds, so some peers behind such an address succeed at each
// try, but a strong flood delays them.
type limiter struct {
	bounds func() (total, each int)

	mu   sync.Mutex
	held int
	from map[netip.Prefix][]*claim
}

// claim is one connection's entry in a limiter.
type claim struct {
	conn net.Conn
	addr netip.Prefix
	at   int           // index among the claims of its address, -1 if it no longer counts
	gone chan struct{} // closed when another connection has replaced it
	l    *limiter
}

func newLimiter(bounds func() (total, each int)) *limiter {
	return &limiter{bounds: bounds, from: make(map[netip.Prefix][]*claim)}
}

// add counts the connection until it is released. If there are too many, it closes
// another one.
func (l *limiter) add(c net.Conn) *claim {
	n := &claim{conn: c, addr: origin(c.RemoteAddr()), gone: make(chan struct{}), l: l}
	total, each := l.bounds()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.from[n.addr]) >= each:
		l.evict(n.addr)
	case l.held >= total:
		l.evict(l.busiest())
	}
	n.at = len(l.from[n.addr])
	l.from[n.addr] = append(l.from[n.addr], n)
	l.held++
	return n
}

// busiest returns the address with the most connections. The caller holds l.mu.
func (l *limiter) busiest() (most netip.Prefix) {
	for addr, list := range l.from {
		if len(list) > len(l.from[most]) {
			most = addr
		}
	}
	return most
}

// evict closes a connection of the address. The caller holds l.mu.
func (l *limiter) evict(addr netip.Prefix) {
	list := l.from[addr]
	o := list[rand.IntN(len(list))]
	l.drop(o)
	close(o.gone)
	_ = o.conn.Close()
}

// drop stops counting a connection. The caller holds l.mu.
func (l *limiter) drop(n *claim) {
	if n.at < 0 {
		return
	}
	list := l.from[n.addr]
	last := len(list) - 1
	list[n.at], list[last].at = list[last], n.at
	list[last], n.at = nil, -1
	l.held--
	if l.from[n.addr] = list[:last]; last == 0 {
		delete(l.from, n.addr)
	}
}

// release stops counting the connection. It may be called twice.
func (n *claim) release() {
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	n.l.drop(n)
}

// origin returns the prefix that counts as one address: an IPv4 address, or the first 64
// bits of an IPv6 address. Those are one network, in which a machine may choose its
// address.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, _ := addr.Prefix(bits) // an invalid address counts as the zero prefix
	return p
}
