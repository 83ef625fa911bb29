// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// ErrNotLeader is returned by an agent that does not lead.
var ErrNotLeader = status.Error(codes.Unavailable, "this agent does not lead")

// Register adds the session service to a server. serve runs each session until it ends.
func Register(s grpc.ServiceRegistrar, serve func(*LeaderEnd) error) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: sessionService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Session", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				ctx, cancel := context.WithCancel(stream.Context())
				defer cancel()
				err := serve(&LeaderEnd{stream: stream, ctx: ctx, cancel: cancel})
				if err != nil && !errors.Is(err, ErrNotLeader) {
					return status.Error(codes.Aborted, err.Error())
				}
				return err
			},
		}},
	}, struct{}{})
}

// LeaderEnd is the leader's end of a session.
type LeaderEnd struct {
	stream grpc.ServerStream
	ctx    context.Context
	cancel context.CancelFunc
}

// Send sends a message to the host. It must not be called concurrently.
func (e *LeaderEnd) Send(m *wire.ToAgent) error { return e.stream.SendMsg(m) }

// Recv waits for a message from the host.
func (e *LeaderEnd) Recv() (*wire.ToLeader, error) {
	// RecvMsg ends when the handler returns, so close must end the wait first.
	m, received := &wire.ToLeader{}, make(chan error, 1)
	go func() { received <- e.stream.RecvMsg(m) }()
	select {
	case err := <-received:
		if err == nil && m.Register != nil {
			err = mayRegister(e.stream.Context(), m.Register)
		}
		return m, err
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	}
}

// mayRegister returns an error if the caller may not register as r.
func mayRegister(ctx context.Context, r *wire.Register) error {
	id, ok := discovery.IdentityFrom(ctx)
	switch {
	case !ok || id.AllocID != r.AllocID:
		return status.Errorf(codes.PermissionDenied, "allocation %q registers as %q", id.AllocID, r.AllocID)
	case wire.AllocPrefix(r.Info.ID) != wire.AllocPrefix(elastic.HostID(id.AllocID)):
		return status.Errorf(codes.PermissionDenied, "allocation %q registers host %q, which is not its own", id.AllocID, r.Info.ID)
	case id.Departing && r.Info.Ring == nil:
		return status.Errorf(codes.PermissionDenied, "allocation %q is not registered in Nomad, and has no ring to leave", id.AllocID)
	}
	return nil
}

// Close ends the session.
func (e *LeaderEnd) Close() { e.cancel() }
