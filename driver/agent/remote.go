// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// A session between hosts is one bidirectional gRPC stream of ToLeader and
// ToAgent, as JSON: new fields may be added, and agents of neighbouring
// versions understand each other while a job is updated.

const (
	sessionService = "kolo.driver.v1.Leader"
	sessionMethod  = "/" + sessionService + "/Session"
	jsonCodecName  = "kolo-json"

	// maxMessage bounds one message; the addresses of a ring of n ranks take
	// about 180·n² bytes.
	maxMessage = 256 << 20
	// maxHeader bounds the headers of one call.
	maxHeader = 64 << 10
	// idleLimit is how long a connection is kept without a call.
	idleLimit = time.Minute
)

// keepAlive finds a partner that vanished without a word. Only a server may ask
// this often: gRPC makes a client's 10 s of anything less.
var keepAlive = struct{ time, timeout time.Duration }{2 * time.Second, 3 * time.Second}

const (
	// pulse is how often a leader says something in each session.
	pulse = time.Second
	// silence is how long a host waits to hear from the leader, and for a
	// connection to it.
	silence = 5 * time.Second
)

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (jsonCodec) Name() string                       { return jsonCodecName }

func init() { encoding.RegisterCodec(jsonCodec{}) }

// newServer returns a gRPC server for peers that the credentials let in: nothing
// of a call is read from anyone else.
func newServer(creds credentials.TransportCredentials) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(64), // a peer has a session and an election call or two
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive.time, Timeout: keepAlive.timeout, MaxConnectionIdle: idleLimit}),
	)
}

// dial opens a connection to a peer.
func dial(addr string, creds credentials.TransportCredentials, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append(more,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: silence}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive.time, Timeout: keepAlive.timeout, PermitWithoutStream: true}),
	)...)
}

// registerSessions offers sessions with the leader that current returns, nil
// when this agent does not lead.
func registerSessions(s grpc.ServiceRegistrar, current func() *Leader) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: sessionService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Session", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				l := current()
				if l == nil {
					return status.Error(codes.Unavailable, "this agent does not lead")
				}
				ctx, cancel := context.WithCancel(stream.Context())
				defer cancel()
				err := l.Serve(&serverSession{stream: stream, ctx: ctx, cancel: cancel})
				if err != nil {
					return status.Error(codes.Aborted, err.Error())
				}
				return nil
			},
		}},
	}, struct{}{})
}

// serverSession is the leader's end of a stream.
type serverSession struct {
	stream grpc.ServerStream
	ctx    context.Context
	cancel context.CancelFunc
	sendMu sync.Mutex
}

func (s *serverSession) send(m *ToAgent) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	return s.stream.SendMsg(m)
}

func (s *serverSession) recv() (*ToLeader, error) {
	// RecvMsg ends when the handler returns, so close must end the wait first.
	type result struct {
		m   *ToLeader
		err error
	}
	c := make(chan result, 1)
	go func() {
		m := &ToLeader{}
		err := s.stream.RecvMsg(m)
		c <- result{m, err}
	}()
	select {
	case r := <-c:
		if r.err == nil && r.m.Register != nil {
			r.err = mayRegister(s.stream.Context(), r.m.Register)
		}
		return r.m, r.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// mayRegister is nil when the caller may register so.
func mayRegister(ctx context.Context, r *Register) error {
	id, ok := discovery.IdentityFrom(ctx)
	switch {
	case !ok || id.AllocID != r.AllocID:
		return status.Errorf(codes.PermissionDenied, "allocation %q registers as %q", id.AllocID, r.AllocID)
	case allocPrefix(r.Info.ID) != allocPrefix(elastic.HostID(id.AllocID)):
		return status.Errorf(codes.PermissionDenied, "allocation %q registers host %q, which is not its own", id.AllocID, r.Info.ID)
	case id.Departing && r.Info.Ring == nil:
		return status.Errorf(codes.PermissionDenied, "allocation %q is not registered in Nomad, and has no ring to leave", id.AllocID)
	}
	return nil
}

func (s *serverSession) close() { s.cancel() }

// clientSession is the host's end of a stream.
type clientSession struct {
	stream grpc.ClientStream
	conn   *grpc.ClientConn
	cancel context.CancelCauseFunc
	ctx    context.Context
	until  time.Time // when its certificates expire
}

// An ear notes when something came over a connection: a message that takes long
// is not silence.
type ear struct {
	begun time.Time
	heard atomic.Int64 // nanoseconds after begun
}

func (e *ear) quiet() time.Duration { return time.Since(e.begun) - time.Duration(e.heard.Load()) }

type heardConn struct {
	net.Conn
	ear *ear
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.ear.heard.Store(int64(time.Since(c.ear.begun)))
	return n, err
}

// openSession begins a session with the leader at an address, which ends when
// nothing is heard for so long, and when a certificate expires.
func openSession(ctx context.Context, addr string, creds *discovery.ClientSide, silence time.Duration) (*clientSession, error) {
	e := &ear{begun: time.Now()}
	conn, err := dial(addr, creds, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return heardConn{c, e}, err
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
	s := &clientSession{stream: stream, conn: conn, cancel: cancel, ctx: ctx, until: creds.Until()}
	go s.listen(e, silence)
	return s, nil
}

// listen ends the session when nothing has come for so long.
func (s *clientSession) listen(e *ear, silence time.Duration) {
	for left := silence; left > 0; left = silence - e.quiet() {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(left):
		}
	}
	s.cancel(fmt.Errorf("no word from the leader for %s", silence))
	_ = s.conn.Close()
}

func (s *clientSession) send(m *ToLeader) error { return s.stream.SendMsg(m) }

func (s *clientSession) recv() (*ToAgent, error) {
	m := &ToAgent{}
	err := s.stream.RecvMsg(m)
	if cause := context.Cause(s.ctx); err != nil && cause != nil {
		err = cause
	}
	return m, err
}

func (s *clientSession) close() {
	s.cancel(nil)
	_ = s.conn.Close()
}
