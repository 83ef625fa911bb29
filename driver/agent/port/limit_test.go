// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// fixed returns bounds that do not change.
func fixed(total, each int) func() (int, int) {
	return func() (int, int) { return total, each }
}

func TestLimiter(t *testing.T) {
	l := newLimiter(fixed(4, 2))
	made := map[string]net.Conn{}
	add := func(name string, ip net.IP) *claim {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
		made[name] = near
		return l.add(addrConn{near, &net.TCPAddr{IP: ip}})
	}
	open := func(name string) bool {
		_ = made[name].SetReadDeadline(time.Now().Add(-time.Second))
		_, err := made[name].Read(make([]byte, 1))
		return !errors.Is(err, io.ErrClosedPipe)
	}
	a, b := net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)
	left := func(names ...string) (n int) {
		for _, name := range names {
			if open(name) {
				n++
			}
		}
		return n
	}
	first := add("a1", a)
	second := add("a2", a)
	add("b1", b)
	must.True(t, open("a1"))
	third := add("a3", a)
	must.Eq(t, 2, left("a1", "a2", "a3"), must.Sprint("one of the address"))
	must.True(t, open("a3") && open("b1"))
	for _, n := range []*claim{first, second} {
		select {
		case <-n.gone:
		default:
			n.release() // it no longer counts
			n.release()
		}
	}
	third.release()
	must.Eq(t, 1, l.held)
	add("c1", net.ParseIP("2001:db8::1"))
	add("c2", net.ParseIP("2001:db8::ffff"))
	add("c3", net.ParseIP("2001:db8::3"))
	must.Eq(t, 2, left("c1", "c2", "c3"), must.Sprint("a network counts as one address"))
	add("d1", net.ParseIP("2001:db8:0:1::1"))
	add("e1", net.ParseIP("2001:db8:0:2::1"))
	must.Eq(t, 1, left("c1", "c2", "c3"), must.Sprint("one of the address with the most"))
	must.True(t, open("b1") && open("d1") && open("e1"), must.Sprint("others keep theirs"))
	must.Eq(t, 4, l.held)
	must.MapLen(t, 4, l.from)
	must.Eq(t, origin(&net.TCPAddr{IP: a}), origin(&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.1")}))
}

type addrConn struct {
	net.Conn
	remote net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.remote }
