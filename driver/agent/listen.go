// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// split serves two protocols on one port, so that a job needs only one: gRPC,
// which begins with HTTP/2's preface, and HTTP/1.
type split struct {
	l          net.Listener
	grpc, http *half
	wg         sync.WaitGroup
}

// half is one protocol's side of a split listener.
type half struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newSplit(l net.Listener) *split {
	newHalf := func() *half {
		return &half{conns: make(chan net.Conn), done: make(chan struct{}), addr: l.Addr()}
	}
	s := &split{l: l, grpc: newHalf(), http: newHalf()}
	s.wg.Add(1)
	go s.serve()
	return s
}

// acceptPause is how long a port rests after a connection that could not be
// taken.
const acceptPause = 50 * time.Millisecond

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
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			s.sort(c)
		}()
	}
}

// sort reads the first bytes of a connection, for which a client has a few
// seconds.
func (s *split) sort(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	br := bufio.NewReaderSize(c, 16)
	head, err := br.Peek(3)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	h := s.http
	if string(head) == "PRI" {
		h = s.grpc
	}
	select {
	case h.conns <- &peekedConn{Conn: c, r: br}:
	case <-h.done:
		_ = c.Close()
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

// peekedConn gives back the bytes that were looked at.
type peekedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *peekedConn) Read(b []byte) (int, error) {
	if c.r != nil {
		if c.r.Buffered() > 0 {
			return c.r.Read(b)
		}
		c.r = nil
	}
	return c.Conn.Read(b)
}
