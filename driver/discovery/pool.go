// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/election"
)

// poolIdle is how long an unused connection is kept.
const poolIdle = time.Minute

// pool sends calls to peers over connections that it keeps for a while, so that a
// leader's calls do not wait for new connections.
type pool struct {
	dial    Dialer
	timeout time.Duration // of each call, including a connect if needed
	log     hclog.Logger

	mu     sync.Mutex
	conns  map[endpoint]*pooled
	failed map[endpoint]string // the last failure logged of each
	closed bool
}

// endpoint is an allocation at an address. Ports are reused, and a connection
// belongs to one allocation only.
type endpoint struct{ alloc, addr string }

func endpointOf(p election.Peer) endpoint { return endpoint{alloc: p.AllocID, addr: p.Addr} }

type pooled struct {
	conn *grpc.ClientConn
	used time.Time
}

func newPool(dial Dialer, log hclog.Logger) *pool {
	return &pool{dial: dial, timeout: time.Second, log: log, conns: make(map[endpoint]*pooled), failed: make(map[endpoint]string)}
}

// call carries one request.
func (p *pool) call(ctx context.Context, c election.Call) (election.Outcome, election.Reply) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	reply, err := p.try(ctx, c)
	p.note(c, err)
	switch {
	case err == nil:
		return election.Answered, reply
	case errors.Is(err, syscall.ECONNREFUSED):
		return election.Refused, reply
	}
	return election.Unknown, reply
}

// note logs a failure, and logs it again only when it changes.
func (p *pool) note(c election.Call, err error) {
	text := ""
	if err != nil {
		text = status.Convert(err).Message()
	}
	to := endpointOf(c.To)
	p.mu.Lock()
	old := p.failed[to]
	if p.failed[to] = text; text == "" {
		delete(p.failed, to)
	}
	p.mu.Unlock()
	switch {
	case text == old || text == "":
	case status.Code(err) == codes.Unauthenticated, status.Code(err) == codes.PermissionDenied:
		p.log.Warn("peer refused this agent", "peer", c.To.AllocID, "address", c.To.Addr, "error", text)
	default:
		p.log.Debug("peer did not answer", "peer", c.To.AllocID, "address", c.To.Addr, "call", c.Request.Kind, "error", text)
	}
}

// try makes the call. It replaces a broken connection once.
func (p *pool) try(ctx context.Context, c election.Call) (election.Reply, error) {
	to := endpointOf(c.To)
	if conn := p.get(to); conn != nil {
		reply, err := send(ctx, conn, c.Request)
		if status.Code(err) != codes.Unavailable {
			return reply, err
		}
		p.drop(to, conn)
	}
	if err := probeTCP(ctx, to.addr); err != nil {
		return election.Reply{}, err
	}
	conn, err := p.open(ctx, to)
	if err != nil {
		return election.Reply{}, err
	}
	reply, err := send(ctx, conn, c.Request)
	if status.Code(err) == codes.Unavailable {
		p.drop(to, conn)
	}
	return reply, err
}

// probeTCP reports whether anything listens. An election must know a refused
// connection, which means a dead process, from other failures, and gRPC does not
// distinguish them.
func probeTCP(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// send makes the call on the connection.
func send(ctx context.Context, conn *grpc.ClientConn, r election.Request) (election.Reply, error) {
	client, req := pb.NewElectionClient(conn), toRequest(r)
	var reply *pb.Reply
	var err error
	switch r.Kind {
	case election.Promise:
		reply, err = client.Promise(ctx, req)
	case election.Lead:
		reply, err = client.Lead(ctx, req)
	case election.Accept:
		reply, err = client.Accept(ctx, req)
	default:
		reply, err = client.Probe(ctx, req)
	}
	if err != nil {
		return election.Reply{}, err
	}
	return fromReply(reply), nil
}

// get returns the kept connection, nil when there is none.
func (p *pool) get(to endpoint) *grpc.ClientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.conns[to]
	if !ok {
		return nil
	}
	k.used = time.Now()
	return k.conn
}

// open returns a connection. If another call has made one meanwhile, it returns
// that.
func (p *pool) open(ctx context.Context, to endpoint) (*grpc.ClientConn, error) {
	if conn := p.get(to); conn != nil {
		return conn, nil
	}
	conn, err := p.dial(ctx, to.addr, to.alloc)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.conns[to]; ok || p.closed {
		_ = conn.Close()
		if ok {
			return k.conn, nil
		}
		return nil, ErrStopped
	}
	p.conns[to] = &pooled{conn, time.Now()}
	return conn, nil
}

// connect starts a connection for later calls, if there is none.
func (p *pool) connect(ctx context.Context, to endpoint) {
	conn, err := p.open(ctx, to)
	if err != nil {
		p.log.Debug("cannot connect to a peer yet", "peer", to.alloc, "address", to.addr, "error", err)
		return
	}
	conn.Connect()
}

// drop closes a broken connection.
func (p *pool) drop(to endpoint, conn *grpc.ClientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, ok := p.conns[to]; ok && k.conn == conn {
		delete(p.conns, to)
	}
	_ = conn.Close()
}

// prune closes connections that have been unused for long.
func (p *pool) prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to, k := range p.conns {
		if time.Since(k.used) > poolIdle {
			delete(p.conns, to)
			_ = k.conn.Close()
		}
	}
}

// close closes everything, for good.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for to, k := range p.conns {
		delete(p.conns, to)
		_ = k.conn.Close()
	}
}
