// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// A connection that was replaced by another holds no resources, even if no one serves yet.
func TestPort_evictedBeforeServing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	s := Share(l, func() int { return 4 })
	t.Cleanup(s.Close)
	before := runtime.NumGoroutine()
	for range 4 * maxUnknownEach {
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		_, err = c.Write([]byte{tlsHandshake})
		must.NoError(t, err)
		must.NoError(t, c.Close())
	}
	left := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = runtime.NumGoroutine() - before; left <= maxUnknownEach {
			return
		}
	}
	t.Fatalf("%d goroutines serve %d connections", left, maxUnknownEach)
}

// The agents of a large job may all call at once, from one address.
func TestPort_largeJob(t *testing.T) {
	const peers = 2 * maxUnknown
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	s := Share(l, func() int { return peers })
	t.Cleanup(s.Close)
	for range peers {
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte{tlsHandshake})
		must.NoError(t, err)
	}
	held := 0
	for end := time.Now().Add(time.Minute); held < peers && time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.unknown.mu.Lock()
		held = s.unknown.held
		s.unknown.mu.Unlock()
	}
	must.Eq(t, peers, held)
}
