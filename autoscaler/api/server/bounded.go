// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// bounded limits the number of open connections. At the limit, a new connection
// replaces the one that has been idle longest (among those of its own address, if
// that address has too many). If none is idle, the new connection is closed before
// anything is read from it: keeping it waiting would cost memory and block the
// connections of others behind it.
type bounded struct {
	net.Listener
	held *counter

	mu   sync.Mutex
	idle []*counted // longest idle first
}

func bound(l net.Listener, held *counter) *bounded { return &bounded{Listener: l, held: held} }

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := remote(c)
		for {
			if l.held.take(from) {
				return &counted{Conn: c, from: from, give: sync.OnceFunc(func() { l.held.give(from) })}, nil
			}
			if !l.evict(from) {
				_ = c.Close() // nothing has been read
				break
			}
		}
	}
}

// evict closes the connection that has been idle longest. It returns false if none
// is idle.
func (l *bounded) evict(from string) bool {
	crowded := l.held.full(from)
	l.mu.Lock()
	i := slices.IndexFunc(l.idle, func(c *counted) bool { return !crowded || c.from == from })
	if i < 0 {
		l.mu.Unlock()
		return false
	}
	c := l.idle[i]
	l.idle = slices.Delete(l.idle, i, i+1)
	l.mu.Unlock()
	_ = c.Close() // it is idle
	return true
}

// noted updates the list of idle connections. The server calls it when a connection
// changes its state.
func (l *bounded) noted(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn() // below TLS
	}
	c, ok := conn.(*counted)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.idle, c); i >= 0 {
		l.idle = slices.Delete(l.idle, i, i+1)
	}
	if state == http.StateNew || state == http.StateIdle {
		l.idle = append(l.idle, c)
	}
}

func remote(c net.Conn) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return origin(tcp.IP)
	}
	return c.RemoteAddr().String()
}

// origin returns the range of addresses from which one caller can choose: all of
// loopback, or an IPv6 network.
func origin(ip net.IP) string {
	switch {
	case ip.IsLoopback():
		return "loopback"
	case ip.To4() == nil:
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return ip.String()
}

// counted is a connection that frees its place when it is closed.
type counted struct {
	net.Conn
	from string
	give func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.give()
	return c.Conn.Close()
}
