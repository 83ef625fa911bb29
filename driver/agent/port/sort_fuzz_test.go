// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// FuzzSort sends any bytes. They must arrive at one listener unchanged, and leave nothing
// behind.
func FuzzSort(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte{tlsHandshake, 3, 1, 0, 0})
	f.Add([]byte("PRI * HTTP/2.0\r\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := &Port{agents: newHalf(nil), web: newHalf(nil), unknown: newLimiter(fixed(4, 4)), readers: newLimiter(fixed(4, 4))}
		near, far := net.Pipe()
		go func() { _, _ = far.Write(sent); _ = far.Close() }()
		done := make(chan struct{})
		go func() { defer close(done); s.sort(near, s.unknown.add(near)) }()
		if len(sent) > 0 {
			side := s.web
			if sent[0] == tlsHandshake {
				side = s.agents
			}
			c, err := side.Accept()
			must.NoError(t, err)
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			got, err := io.ReadAll(c)
			must.NoError(t, err)
			must.Eq(t, sent, got)
			must.NoError(t, c.Close())
		}
		<-done
		must.Eq(t, 0, s.unknown.held)
		must.Eq(t, 0, s.readers.held)
	})
}
