// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Serve listens until ctx ends. It calls ready with the address that it listens on.
func (s *Server) Serve(ctx context.Context, c config.HTTP, ready func(net.Addr)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Bind, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listening for the HTTP API: %w", err)
	}
	u, err := s.listenUnix(c, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ready(l.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		b := bound(l, newCounter(mostConnections, connectionsByAddress))
		return s.serve(ctx, s.secure(b, c), b.noted, nil)
	})
	if u != nil {
		g.Go(func() error {
			b := bound(u, newCounter(mostConnections, mostConnections))
			return s.serve(ctx, b, b.noted, admitting(u.Gate))
		})
	}
	return g.Wait()
}

// listenUnix creates the Unix socket, or returns nil if there is none. A path in
// the configuration must work; the default path is optional.
func (s *Server) listenUnix(c config.HTTP, at net.Addr) (*socket.Listener, error) {
	path := c.Unix
	if path == "" {
		path = s.places.Default(at.(*net.TCPAddr).Port)
	}
	if path == "" || path == config.NoSocket {
		return nil, nil
	}
	u, err := socket.Listen(path, c.UnixGroup)
	switch {
	case err == nil:
		s.socket = path
		s.log.Info("API for callers of this machine is up", "socket", path)
		return u, nil
	case c.Unix != "":
		return nil, err
	}
	s.log.Warn("no Unix socket, so kolo needs a Nomad token on this machine, too; set http { unix } to another path", "error", err)
	return nil, nil
}

// serve handles the connections of one listener until ctx ends.
func (s *Server) serve(ctx context.Context, l net.Listener, noted func(net.Conn, http.ConnState), connected func(context.Context, net.Conn) context.Context) error {
	hs := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.read, WriteTimeout: s.limits.write, IdleTimeout: s.limits.idle,
		MaxHeaderBytes: headerLimit,
		ErrorLog:       s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		// The context ends event streams, so that Shutdown need not wait for them.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: connected,
		ConnState:   noted,
	}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the HTTP API: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := hs.Shutdown(last); err != nil {
		s.log.Debug("cutting off requests that did not end", "error", errors.Join(err, hs.Close()))
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the HTTP API: %w", err)
	}
	return nil
}
