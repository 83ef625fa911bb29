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

// Handler handles a process's messages. Its methods are called one after the other, and the
// next message waits for them.
type Handler interface {
	// Hello decides whether the process can take part. Its error is sent to the process.
	Hello(Hello) error
	// Ready means that the process has left the ring of a generation, 0 if it was in none,
	// and waits for its next place.
	Ready(generation uint64)
	// Forming means that the process is still connecting to a group of the generation's
	// ring, and listens at these addresses so far.
	Forming(generation uint64, round int, listening []netip.AddrPort)
	// Formed means that the process is connected to a group of the generation's ring, and
	// listens at these addresses for the others; known is false if it doesn't report them.
	Formed(generation uint64, round int, listening []netip.AddrPort, known bool)
	// Progress means that the process reports the ring's progress. The line is JSON and
	// valid until the method returns.
	Progress(generation uint64, line []byte)
	// Refused means that the server has sent an error to a process of the task.
	Refused(err error)
}

// Bounds on what the processes of a task can make a server do.
const (
	maxLine = 64 << 10 // bytes
	// maxStrangers bounds the connections that have not said hello, and helloTimeout the
	// time until they must.
	maxStrangers = 16
	helloTimeout = 10 * time.Second
	// maxRate and maxBurst bound the lines that are read per second.
	maxRate, maxBurst = 1000, 2000
	// sendTimeout is how long a process may take to read a message.
	sendTimeout = time.Minute
)

// Server is the agent's side of the protocol for one slot, on a loopback port of its own.
// It talks to one process at a time, the one that said hello last.
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
	conns   map[*conn]bool // all open ones
	unknown int            // number of those that have not said hello
	present *conn          // the current process's
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

// Port returns the server's port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Secret returns the secret that a process must send with its hello.
func (s *Server) Secret() string { return s.secret }

// Close ends all connections. It does not wait for a method of the handler that is running,
// because that method may itself wait for the caller of Close.
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

// Change notifies the process that its ring is about to change.
func (s *Server) Change(generation uint64) { s.send(change(generation)) }

// Broken tells the process that its ring has lost a member.
func (s *Server) Broken(generation uint64) { s.send(broken(generation)) }

// Attested tells the process that a group's connections are between members only.
func (s *Server) Attested(generation uint64, round int) { s.send(attested(generation, round)) }

// Batch tells the process whether it must not adapt its batch.
func (s *Server) Batch(keep bool) { s.send(batch(keep)) }

// End tells the process, which has left the ring of a generation, that it gets no next
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
			time.Sleep(100 * time.Millisecond) // for example too many open files
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

// adopt makes c the process's connection, in place of the previous one.
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
