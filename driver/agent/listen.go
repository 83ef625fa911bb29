// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The port is open to all who reach it. These bound what callers that have not
// authenticated themselves cost: a connection before its first byte some
// kilobytes, one in a handshake some tens of them, one that asks for the status
// at most maxHeader.
const (
	// maxUnknown connections are in a handshake, or have not said anything yet;
	// maxUnknownEach of one address. In a large job there may be more of either,
	// unknownPerPeer for each agent: all of them may call at once, when another
	// leader is elected, and from one address where there is NAT between them. An
	// agent opens two at a time.
	maxUnknown, maxUnknownEach, unknownPerPeer = 256, 64, 4
	// maxWeb connections ask for the status, maxWebEach of one address.
	maxWeb, maxWebEach = 64, 16
	// firstByteWait is how long a caller may be silent.
	firstByteWait = 5 * time.Second
	// acceptPause is how long a port rests after a connection that could not be
	// taken.
	acceptPause = 50 * time.Millisecond
	// tlsHandshake is the first byte of TLS (RFC 8446, 5.1). No HTTP method
	// begins with it.
	tlsHandshake = 0x16
)

// split serves two protocols on one port, so that a job needs only one: gRPC
// within TLS, for agents, and HTTP/1, for those who read the status.
type split struct {
	l            net.Listener
	grpc, http   *half
	unknown, web *limiter
	wg           sync.WaitGroup
}

// half is one protocol's side of a split listener.
type half struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newHalf(addr net.Addr) *half {
	return &half{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// newSplit serves the listener. peers tells how many agents the job has.
func newSplit(l net.Listener, peers func() int) *split {
	s := &split{l: l, grpc: newHalf(l.Addr()), http: newHalf(l.Addr()),
		unknown: newLimiter(func() (total, each int) {
			n := unknownPerPeer * peers()
			return max(maxUnknown, n), max(maxUnknownEach, n)
		}),
		web: newLimiter(fixed(maxWeb, maxWebEach))}
	s.wg.Add(1)
	go s.serve()
	return s
}

func (s *split) serve() {
	defer s.wg.Done()
	for {
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			_ = s.grpc.Close()
			_ = s.http.Close()
			return
		}
		if err != nil { // no file descriptor is free, for one; that passes
			time.Sleep(acceptPause)
			continue
		}
		place := s.unknown.add(c)
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			s.sort(c, place)
		}()
	}
}

// sort reads the first byte of a connection. TLS goes to the side of the agents,
// and counts until the caller is authenticated; the rest to that of the status,
// and counts there until its end.
func (s *split) sort(c net.Conn, place *limited) {
	first := &peekedConn{Conn: c, place: place}
	_ = c.SetReadDeadline(time.Now().Add(firstByteWait))
	if _, err := io.ReadFull(c, first.head[:]); err != nil {
		_ = first.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	h := s.grpc
	if first.head[0] != tlsHandshake {
		h = s.http
		first.place = s.web.add(c)
		place.release()
	}
	select {
	case h.conns <- first:
	case <-first.place.gone: // no one serves yet, and others came
		_ = first.Close()
	case <-h.done:
		_ = first.Close()
	}
}

func (s *split) close() {
	_ = s.l.Close()
	s.wg.Wait()
}

// Accept waits for a connection of this protocol.
func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *half) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is the shared port's address.
func (h *half) Addr() net.Addr { return h.addr }

// peekedConn gives back the byte that was looked at.
type peekedConn struct {
	net.Conn
	place *limited
	head  [1]byte
	read  bool // head has been given back
}

// Read reads from the connection.
func (c *peekedConn) Read(b []byte) (int, error) {
	if !c.read && len(b) > 0 {
		c.read = true
		b[0] = c.head[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// Admitted ends the limits of a connection whose caller is an agent of the job.
func (c *peekedConn) Admitted() { c.place.release() }

// Gone is closed when the connection was closed for another one.
func (c *peekedConn) Gone() <-chan struct{} { return c.place.gone }

// Close closes the connection.
func (c *peekedConn) Close() error {
	c.place.release()
	return c.Conn.Close()
}
