// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/netutil"

	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// ErrHold is returned by a Handler that has no answer and never will have:
// the endpoint keeps the request open until the client goes away or the
// endpoint is closed. Use it for a process that is about to be stopped.
var ErrHold = errors.New("rendezvous: request is held")

// Handler answers the requests of one slot. Every call may block for as long
// as it likes; ctx ends when the client goes away or the endpoint is closed.
//
// An error of Put, Get, Delete or WorkerAddress is answered with status 500.
// Horovod tries three times within 1.5 seconds and then aborts, so an error
// means that this process is not to live on; anything temporary is waited for
// inside the call. An error that wraps ErrHold is not answered at all.
type Handler interface {
	Put(ctx context.Context, scope, key string, value []byte) error
	Get(ctx context.Context, scope, key string) (value []byte, found bool, err error)
	Delete(ctx context.Context, scope, key string) error
	// RankAndSize blocks until the next ring is formed. It is never answered
	// with a failure (Horovod would take it for rank 0 of 0, or abort): after
	// an error the request is held.
	RankAndSize(ctx context.Context) (Assignment, error)
	// WorkerAddress takes where the notification service is, once per process.
	WorkerAddress(ctx context.Context, t NotifyTarget) error
}

// limits bound what one process can make its endpoint do.
type limits struct {
	// Body is the largest body of a PUT in bytes. A blob has 136 bytes per
	// peer; 1 MiB is enough for 7,000 ranks.
	Body int64
	// Name is the longest scope or key in bytes.
	Name int
	// Conns is how many connections are served at once; more wait. A process needs two. Those that the gate does not admit are not
	// counted.
	Conns int
	// Header and Transfer bound the time to send a request's header, and to
	// send a body or take an answer. The time until
	// the answer starts is not bounded.
	Header, Transfer time.Duration
}

var defaultLimits = limits{Body: 1 << 20, Name: 512, Conns: 32, Header: 10 * time.Second, Transfer: 30 * time.Second}

// Endpoint is the HTTP server of one slot, on a loopback port of its own: the
// port identifies the slot that asks, which the protocol does not. That it is a process
// of the task that asks is up to the gate.
type Endpoint struct {
	port   int
	server *http.Server
	stop   context.CancelFunc
	served sync.WaitGroup
}

// Listen starts an endpoint with the default limits on a free port of
// 127.0.0.1. It serves those that callers admits until Close.
func Listen(h Handler, callers gate.Callers, logger hclog.Logger) (*Endpoint, error) {
	return listen(h, callers, logger, defaultLimits)
}

// listen is Listen with limits of the caller's.
func listen(h Handler, callers gate.Callers, logger hclog.Logger, bounds limits) (*Endpoint, error) {
	ctx, stop := context.WithCancel(context.Background())
	// On loopback the kernel knows when a peer is gone: probing would be four
	// system calls for each of a process's thousands of connections.
	config := net.ListenConfig{KeepAlive: -1}
	ln, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, fmt.Errorf("rendezvous endpoint: %w", err)
	}
	e := &Endpoint{
		port: ln.Addr().(*net.TCPAddr).Port,
		stop: stop,
		server: &http.Server{
			Handler:           &service{handler: h, limits: bounds, log: logger},
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: bounds.Header,
			IdleTimeout:       bounds.Header,
			// Not ReadTimeout: it would also end requests that are held.
			MaxHeaderBytes: 2*bounds.Name + 8<<10,
			ErrorLog:       logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
		},
	}
	// Only connections that are admitted count towards the limit. More wait: Horovod
	// aborts after three refusals.
	served := netutil.LimitListener(gate.Listen(ln, callers), bounds.Conns)
	e.served.Go(func() {
		if err := e.server.Serve(served); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("rendezvous endpoint stopped", "port", e.port, "error", err)
		}
	})
	return e, nil
}

// Port is the endpoint's TCP port on 127.0.0.1. It never changes.
func (e *Endpoint) Port() int { return e.port }

// Close ends all requests and connections at once. A process that still talks
// to the endpoint aborts, so stop it first.
func (e *Endpoint) Close() error {
	e.stop()
	err := e.server.Close()
	e.served.Wait()
	return err
}
