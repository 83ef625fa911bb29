// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"net"
	"net/http"
	"testing"

	"github.com/shoenig/test/must"
)

// TestBounded_WhoMakesRoom checks which connection is closed for a new one: the one that has
// been silent for longest, and none with a request.
func TestBounded_WhoMakesRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	b := bound(l, newCounter(4, 2))
	accept := func() *counted {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		s, err := b.Accept()
		must.NoError(t, err)
		b.noted(s, http.StateNew)
		return s.(*counted)
	}
	closed := func(c *counted) bool {
		_, err := c.Write([]byte("x"))
		return err != nil
	}
	first, second := accept(), accept()
	b.noted(first, http.StateActive)
	third := accept()
	must.True(t, closed(second), must.Sprint("the first is being answered"))
	must.False(t, closed(first))
	b.noted(first, http.StateIdle)
	accept()
	must.True(t, closed(third), must.Sprint("it has been silent longer than the first"))
	must.False(t, closed(first))

	t.Log("silent ones make room for any address, while there are some")
	must.True(t, b.evict("10.0.0.1"))
	must.True(t, b.evict("10.0.0.1"))
	must.False(t, b.evict("10.0.0.1"))
	must.MapLen(t, 0, b.held.held)
}
