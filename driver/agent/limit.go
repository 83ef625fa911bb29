// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// limiter bounds how many connections there are, in total and from one address.
// A new one beyond a bound takes the place of the oldest, of the same address or
// of all: one that authenticates itself needs milliseconds, one that is there to
// take up room stays. So a flood does not keep others out, even from the same
// address.
type limiter struct {
	total, each int

	mu   sync.Mutex
	held *list.List // of *limited, the oldest first
	from map[netip.Prefix]int
}

// limited is a connection of a limiter.
type limited struct {
	conn net.Conn
	addr netip.Prefix
	at   *list.Element // nil when it is not counted any more
	gone chan struct{} // closed when another one has taken its place
	l    *limiter
}

func newLimiter(total, each int) *limiter {
	return &limiter{total: total, each: each, held: list.New(), from: make(map[netip.Prefix]int)}
}

// add counts the connection until it is released, and closes another one where
// there are too many.
func (l *limiter) add(c net.Conn) *limited {
	n := &limited{conn: c, addr: origin(c.RemoteAddr()), gone: make(chan struct{}), l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.from[n.addr] >= l.each:
		l.evict(func(o *limited) bool { return o.addr == n.addr })
	case l.held.Len() >= l.total:
		l.evict(func(*limited) bool { return true })
	}
	n.at = l.held.PushBack(n)
	l.from[n.addr]++
	return n
}

// evict closes the oldest connection that matches. The caller holds l.mu.
func (l *limiter) evict(match func(*limited) bool) {
	for e := l.held.Front(); e != nil; e = e.Next() {
		if o := e.Value.(*limited); match(o) {
			l.drop(o)
			close(o.gone)
			_ = o.conn.Close()
			return
		}
	}
}

// drop stops counting a connection. The caller holds l.mu.
func (l *limiter) drop(n *limited) {
	if n.at == nil {
		return
	}
	l.held.Remove(n.at)
	n.at = nil
	if l.from[n.addr]--; l.from[n.addr] == 0 {
		delete(l.from, n.addr)
	}
}

// release stops counting the connection. It may be called twice.
func (n *limited) release() {
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	n.l.drop(n)
}

// origin is the address that counts as one: an IPv4 address, or the 64 bits of
// IPv6 that belong to one network, within which a machine may choose.
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
