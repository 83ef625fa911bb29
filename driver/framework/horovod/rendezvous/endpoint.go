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

// ErrHold is returned by a Handler that will never have an answer. The endpoint keeps the
// request open until the client goes away or the endpoint is closed. Use it for a process
// that is about to be stopped.
var ErrHold = errors.New("rendezvous: request is held")

// Handler answers the requests of one slot. Every call may block for as long as it needs;
// ctx ends when the client goes away or the endpoint is closed.
//
// An error of Put, Get, Delete or WorkerAddress is answered with status 500. Horovod tries
// three times within 1.5 seconds and then aborts. So return an error only if the process is
// to end, and wait inside the call for anything temporary. An error that wraps ErrHold is
// not answered at all.
type Handler interface {
	Put(ctx context.Context, scope, key string, value []byte) error
	Get(ctx context.Context, scope, key string) (value []byte, found bool, err error)
	Delete(ctx context.Context, scope, key string) error
	// RankAndSize blocks until the next ring is formed. The endpoint never answers it with
	// a failure, which Horovod would take for rank 0 of 0, or abort on. After an error it
	// keeps the request open.
	RankAndSize(ctx context.Context) (Assignment, error)
	// WorkerAddress gets the address of the notification service, once per process.
	WorkerAddress(ctx context.Context, t NotifyTarget) error
}

// limits bound what one process can make its endpoint do.
type limits struct {
	// Body is the largest body of a PUT in bytes. A blob has 136 bytes per
	// peer; 1 MiB is enough for 7,000 ranks.
	Body int64
	// Name is the longest scope or key in bytes.
	Name int
	// Conns is the number of connections served at once; more wait. A process needs two.
	// Connections that the gate refuses do not count.
	Conns int
	// Header and Transfer bound the time to send a request's header, and to send a body or
	// read an answer. The time until the answer starts is not bounded.
	Header, Transfer time.Duration
}

var defaultLimits = limits{Body: 1 << 20, Name: 512, Conns: 32, Header: 10 * time.Second, Transfer: 30 * time.Second}

// Endpoint is the HTTP server of one slot, on a loopback port of its own. The port
// identifies the slot, since requests do not. The gate ensures that the client is a process
// of the task.
type Endpoint struct {
	port   int
	server *http.Server
	stop   context.CancelFunc
	served sync.WaitGroup
}

// Listen starts an endpoint with the default limits on a free port of 127.0.0.1. It serves
// the peers that callers admits until Close.
func Listen(h Handler, callers gate.Callers, logger hclog.Logger) (*Endpoint, error) {
	return listen(h, callers, logger, defaultLimits)
}

// listen is Listen with the given limits.
func listen(h Handler, callers gate.Callers, logger hclog.Logger, bounds limits) (*Endpoint, error) {
	ctx, stop := context.WithCancel(context.Background())
	// On loopback the kernel knows when a peer is gone. Keep-alive probes would cost four
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
			// Not ReadTimeout, which would also end requests that wait.
			MaxHeaderBytes: 2*bounds.Name + 8<<10,
			ErrorLog:       logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
		},
	}
	// Only admitted connections count towards the limit. More of them wait, because Horovod
	// aborts after three refusals.
	served := netutil.LimitListener(gate.Listen(ln, callers), bounds.Conns)
	e.served.Go(func() {
		if err := e.server.Serve(served); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("rendezvous endpoint stopped", "port", e.port, "error", err)
		}
	})
	return e, nil
}

// Port returns the endpoint's TCP port on 127.0.0.1. It never changes.
func (e *Endpoint) Port() int { return e.port }

// Close ends all requests and connections at once. A process that still uses the endpoint
// aborts, so stop it first.
func (e *Endpoint) Close() error {
	e.stop()
	err := e.server.Close()
	e.served.Wait()
	return err
}
