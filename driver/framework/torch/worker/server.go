// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Handler takes what a process sends. Its methods are called one after the other,
// and delay what the process sends next.
type Handler interface {
	// Hello decides whether the process can take part; its error is the answer.
	Hello(Hello) error
	// Ready: the process has left the ring of a generation, 0 when it was in none,
	// and waits for its next place.
	Ready(generation uint64)
	// Forming: it still connects to a group of the ring of a generation, and listens at
	// these addresses so far.
	Forming(generation uint64, round int, listening []netip.AddrPort)
	// Formed: it is connected to a group of the ring of a generation, and listens at
	// these addresses for the others; known is false where it doesn't report them.
	Formed(generation uint64, round int, listening []netip.AddrPort, known bool)
	// Progress: it reports how far the ring has come. The line is JSON and valid
	// until the method returns.
	Progress(generation uint64, line []byte)
	// Refused: the server has sent an error to a process of the task.
	Refused(err error)
}

// Bounds of what the processes of a task can make a server do.
const (
	maxLine = 64 << 10 // bytes
	// maxStrangers bounds the connections that have not said hello, helloTimeout the
	// time until they do.
	maxStrangers = 16
	helloTimeout = 10 * time.Second
	// maxRate and maxBurst bound the lines that are read in a second.
	maxRate, maxBurst = 1000, 2000
	// sendTimeout is how long a process may take to read a message.
	sendTimeout = time.Minute
)

// Server is the agent's end of the protocol for one slot, on a loopback port of its
// own. It speaks with one process at a time, the one that said hello last.
type Server struct {
	handler  Handler
	log      hclog.Logger
	listener net.Listener
	port     int
	secret   string
	accepted sync.WaitGroup

	// handling is held while a method of the handler is called.
	handling sync.Mutex

	mu      sync.Mutex
	conns   map[*conn]bool // all that are open
	unknown int            // of them, those that have not said hello
	present *conn          // the process's
	closed  bool
}

// Listen starts a server for the processes that callers admits, on a free port of
// 127.0.0.1.
func Listen(h Handler, callers gate.Callers, logger hclog.Logger) (*Server, error) {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	// On loopback the kernel knows when a peer is gone.
	config := net.ListenConfig{KeepAlive: -1}
	ln, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("worker protocol: %w", err)
	}
	s := &Server{handler: h, log: logger, port: ln.Addr().(*net.TCPAddr).Port, secret: hex.EncodeToString(secret[:]),
		listener: gate.Listen(ln, callers), conns: map[*conn]bool{}}
	s.accepted.Go(s.accept)
	return s, nil
}

// Port is the server's on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Secret is what a process has to send with its hello.
func (s *Server) Secret() string { return s.secret }

// Close ends all connections. It does not wait for a method of the handler that is
// being called: that one may wait for the caller.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.accepted.Wait()
	return err
}

// Place sends the process its place.
func (s *Server) Place(p Place) { s.send(place(p)) }

// Change notifies the process that its ring is to change.
func (s *Server) Change(generation uint64) { s.send(change(generation)) }

// Broken reports to the process that its ring has lost a member.
func (s *Server) Broken(generation uint64) { s.send(broken(generation)) }

// Attested tells the process that the connections of a group are between members alone.
func (s *Server) Attested(generation uint64, round int) { s.send(attested(generation, round)) }

// End tells the process, which has left the ring of a generation, that it has no next
// place.
func (s *Server) End(generation uint64) { s.send(end(generation)) }

func (s *Server) send(message []byte) {
	s.mu.Lock()
	c := s.present
	s.mu.Unlock()
	if c != nil {
		c.send(message)
	}
}

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Warn("worker protocol: accept", "error", err)
			time.Sleep(100 * time.Millisecond) // too many open files, for one
			continue
		}
		c := newConn(nc)
		if !s.add(c) {
			gate.Reset(nc)
			continue
		}
		go c.write()
		go func() {
			s.serve(c)
			c.finish()
			s.remove(c)
		}()
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.unknown >= maxStrangers {
		return false
	}
	s.conns[c] = true
	s.unknown++
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if !c.known {
		s.unknown--
	}
	if s.present == c {
		s.present = nil
	}
}

// adopt makes c the process's connection, in place of the one before.
func (s *Server) adopt(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.known = true
	s.unknown--
	if s.present != nil {
		s.present.close()
	}
	s.present = c
}

func (s *Server) isPresent(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present == c && !s.closed
}
