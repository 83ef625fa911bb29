// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Store is the store of one ring as a process uses it.
type Store interface {
	// Do performs one operation, and may block. ctx ends when the client goes away or the
	// server is closed. An operation that changes the store is performed even then.
	Do(ctx context.Context, op store.Op) (store.Result, error)
}

// Process is the process that a server serves.
type Process interface {
	// Store returns the store of the process's latest ring. Before the process's first
	// place it blocks until there is one, or ctx ends. Each connection calls it once, with
	// its first operation.
	Store(ctx context.Context) (Store, error)
}

// limits bound what one process can make its server do. Zero fields mean the default.
type limits struct {
	// Conns is how many connections may be open at once, 128 by default; more are reset. A
	// process needs one or two for each of its process groups.
	Conns int
	// Bytes bounds the memory for the requests of all connections, 64 MiB by default.
	Bytes int64
	// Validate bounds the time until a connection's first request, 10 s by default.
	// Transfer bounds the time to send the rest of a request, and to read an answer, 30 s
	// by default. The time between requests is not bounded.
	Validate, Transfer time.Duration
}

func (l limits) withDefaults() limits {
	if l.Conns <= 0 {
		l.Conns = 128
	}
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	if l.Validate <= 0 {
		l.Validate = 10 * time.Second
	}
	if l.Transfer <= 0 {
		l.Transfer = 30 * time.Second
	}
	return l
}

// loudRefusals is how many connections that violate a rule are logged as warnings: enough
// to find the cause, too few to fill the log.
const loudRefusals = 20

// acceptPause is how long a server pauses after a failed accept.
const acceptPause = 50 * time.Millisecond

// Server serves the store to one process. The port identifies the slot; the gate ensures
// that the client is a process of the task.
type Server struct {
	process Process
	limits  limits
	log     hclog.Logger
	ln      net.Listener
	port    int
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	open    chan struct{} // an element for each connection
	budget  budget
	refused atomic.Int64
}

// Listen starts a server on a free port of 127.0.0.1. It serves the peers that callers
// admits until Close.
func Listen(p Process, callers gate.Callers, logger hclog.Logger) (*Server, error) {
	return listen(p, callers, logger, limits{})
}

// listen is Listen with the given limits.
func listen(p Process, callers gate.Callers, logger hclog.Logger, bounds limits) (*Server, error) {
	bounds = bounds.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	config := net.ListenConfig{KeepAlive: -1} // on loopback the kernel knows when a peer is gone
	ln, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, fmt.Errorf("store's endpoint: %w", err)
	}
	s := &Server{
		process: p, limits: bounds, log: logger, ln: gate.Listen(ln, callers), port: ln.Addr().(*net.TCPAddr).Port,
		ctx: ctx, stop: stop, open: make(chan struct{}, bounds.Conns), budget: budget{most: bounds.Bytes},
	}
	s.running.Go(s.accept)
	return s, nil
}

// Port returns the server's TCP port on 127.0.0.1. It never changes.
func (s *Server) Port() int { return s.port }

// Close resets all connections and waits for their goroutines. It may be called again.
func (s *Server) Close() error {
	s.stop()
	err := s.ln.Close()
	s.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		switch {
		case s.ctx.Err() != nil:
			if err == nil {
				gate.Reset(conn)
			}
			return
		case err != nil: // for example no free file descriptor; that passes
			s.log.Warn("store's endpoint cannot take a connection", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
			}
			continue
		}
		select {
		case s.open <- struct{}{}:
			s.running.Go(func() {
				defer func() { <-s.open }()
				s.serve(conn)
			})
		default:
			s.refuse(fmt.Errorf("%d connections are open, the most there may be", s.limits.Conns))
			gate.Reset(conn)
		}
	}
}

// serve serves one connection to its end.
func (s *Server) serve(conn net.Conn) {
	err := newConnection(s.ctx, s, conn).run()
	switch {
	case err == nil:
		_ = conn.Close()
		return
	case s.ctx.Err() != nil, errors.Is(err, context.Canceled), errors.Is(err, store.ErrOver), isNetwork(err):
		s.log.Debug("connection to the store ended", "error", err)
	default:
		s.refuse(err)
	}
	gate.Reset(conn)
}

// refuse logs why a connection is reset.
func (s *Server) refuse(err error) {
	level := hclog.Warn
	if s.refused.Add(1) > loudRefusals {
		level = hclog.Debug
	}
	s.log.Log(level, "reset a connection to the store", "error", err)
}

// isNetwork reports whether the error means that the client is gone, or stalls.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}
