// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// bounded accepts so many connections at a time. One beyond the bound takes the
// place of the one that has been idle longest, of its own address where that
// has too many; where none is idle it is closed before anything is read of it.
// Keeping it waiting would cost memory, and those of others would wait behind it.
type bounded struct {
	net.Listener
	held *counter

	mu   sync.Mutex
	idle []*counted // the longest first
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
				_ = c.Close() // nothing was promised
				break
			}
		}
	}
}

// evict closes the connection that has been idle longest; it returns false
// where there is none.
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

// noted is called by the server when a connection changes its state.
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

// origin is what one caller can choose its addresses of: all of loopback, or an
// IPv6 network.
func origin(ip net.IP) string {
	switch {
	case ip.IsLoopback():
		return "loopback"
	case ip.To4() == nil:
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return ip.String()
}

// counted is a connection that is given back when it ends.
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
