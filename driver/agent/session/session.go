// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
)

// HostEnd is the host's end of a session.
type HostEnd struct {
	stream grpc.ClientStream
	conn   *grpc.ClientConn
	cancel context.CancelCauseFunc
	ctx    context.Context
	until  time.Time // when its certificates expire
}

// idleTracker records when bytes last arrived on a connection. Part of a long message
// counts, too.
type idleTracker struct {
	begun time.Time
	heard atomic.Int64 // nanoseconds after begun
}

func (t *idleTracker) idle() time.Duration {
	return time.Since(t.begun) - time.Duration(t.heard.Load())
}

type trackedConn struct {
	net.Conn
	idle *idleTracker
}

func (c trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.idle.heard.Store(int64(time.Since(c.idle.begun)))
	return n, err
}

// Open begins a session with the leader at addr. The session ends when nothing arrives for
// timeout, or when a certificate expires.
func Open(ctx context.Context, addr string, creds *discovery.ClientSide, timeout time.Duration) (*HostEnd, error) {
	tracker := &idleTracker{begun: time.Now()}
	conn, err := Dial(addr, creds, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return trackedConn{c, tracker}, err
	}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, sessionMethod,
		grpc.CallContentSubtype(jsonCodecName))
	if err != nil {
		cancel(nil)
		_ = conn.Close()
		return nil, err
	}
	e := &HostEnd{stream: stream, conn: conn, cancel: cancel, ctx: ctx, until: creds.Until()}
	go e.expire(tracker, timeout)
	return e, nil
}

// expire ends the session when nothing has arrived for timeout.
func (e *HostEnd) expire(t *idleTracker, timeout time.Duration) {
	for left := timeout; left > 0; left = timeout - t.idle() {
		select {
		case <-e.ctx.Done():
			return
		case <-time.After(left):
		}
	}
	e.cancel(fmt.Errorf("no message from the leader for %s", timeout))
	_ = e.conn.Close()
}

// Send sends a message to the leader.
func (e *HostEnd) Send(m *wire.ToLeader) error { return e.stream.SendMsg(m) }

// Recv waits for a message from the leader.
func (e *HostEnd) Recv() (*wire.ToAgent, error) {
	m := &wire.ToAgent{}
	err := e.stream.RecvMsg(m)
	if cause := context.Cause(e.ctx); err != nil && cause != nil {
		err = cause
	}
	return m, err
}

// Close ends the session.
func (e *HostEnd) Close() {
	e.cancel(nil)
	_ = e.conn.Close()
}
