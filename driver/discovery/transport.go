// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Authentication describes in a job's status how agents authenticate each other.
const Authentication = "mutual TLS, workload identities proved and never sent"

const (
	// alpn is the protocol name of gRPC in TLS.
	alpn = "h2"
	// handshakeTimeout bounds a handshake, including the proof and the registry
	// read.
	handshakeTimeout = 10 * time.Second
	// refusalsEvery is the least time between two log lines about refused peers.
	refusalsEvery = time.Second
)

// Transport is TLS 1.3 between agents of one job, in which both sides prove their
// workload identities. A connection ends when the peer's certificate expires.
type Transport struct {
	// Certifier makes this agent's certificates.
	Certifier *Certifier
	// Verifier checks peers' certificates.
	Verifier *Verifier
	// Presence knows which allocations may call.
	Presence *Presence
	Logger   hclog.Logger

	mu      sync.Mutex
	refused time.Time // when the last one was logged
}

// peerInfo is what gRPC keeps about a connection's peer.
type peerInfo struct {
	credentials.CommonAuthInfo
	identity Identity
	presence *Presence
}

// AuthType names the transport in gRPC's own messages.
func (peerInfo) AuthType() string { return "kolo-tls" }

// IdentityFrom returns the identity of the peer that made the call with the context
// ctx. The identity's field Departing is up to date. IdentityFrom returns false if
// the call did not come over a Transport.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, false
	}
	info, ok := p.AuthInfo.(peerInfo)
	if !ok {
		return Identity{}, false
	}
	id := info.identity
	id.Departing = info.presence.departing(ctx, id.AllocID)
	return id, true
}

// Admission is a connection that counts towards the listener's limits until the
// peer has authenticated itself.
type Admission interface {
	// Admitted is called once the peer is known.
	Admitted()
	// Gone is closed if the connection is closed before that, in favour of another
	// one. The handshake then ends, even while it waits for something other than
	// the connection.
	Gone() <-chan struct{}
}

// Server returns the credentials of a gRPC server. The server accepts calls only
// from live agents of the job, and verifies the caller before it reads anything of
// a call.
func (t *Transport) Server() credentials.TransportCredentials { return &serverSide{t} }

type serverSide struct{ t *Transport }

// ServerHandshake authenticates both sides. Its caller bounds its duration, too.
func (s *serverSide) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, id, err := s.accept(raw)
	if err != nil {
		s.t.noteRefusal(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	if a, ok := raw.(Admission); ok {
		a.Admitted()
	}
	return s.t.lease(conn, id), s.t.info(id), nil
}

func (s *serverSide) accept(raw net.Conn) (conn *tls.Conn, id Identity, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	endWith(ctx, cancel, raw)
	config, err := s.t.config(ctx, func(cs tls.ConnectionState) (err error) {
		id, err = s.t.identify(ctx, cs, s.t.Verifier.Verify)
		return err
	})
	if err != nil {
		return nil, Identity{}, err
	}
	conn = tls.Server(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil { // sets id
		return nil, Identity{}, err
	}
	// Only now the caller has shown that it has the certificate's key. A caller
	// that replays a certificate must not cause a registry read.
	if err := s.t.Presence.Check(ctx, id); err != nil {
		_ = conn.Close() // the caller notices
		return nil, Identity{}, err
	}
	return conn, id, nil
}

// endWith cancels ctx if the connection is closed in favour of another one.
func endWith(ctx context.Context, cancel context.CancelFunc, raw net.Conn) {
	a, ok := raw.(Admission)
	if !ok {
		return
	}
	go func() {
		select {
		case <-a.Gone():
			cancel()
		case <-ctx.Done():
		}
	}()
}

// ClientHandshake fails: these are a server's credentials.
func (s *serverSide) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info returns the name of the security protocol, as gRPC requires.
func (s *serverSide) Info() credentials.ProtocolInfo { return protocol }

// Clone returns the same credentials: they do not change.
func (s *serverSide) Clone() credentials.TransportCredentials { return s }

// OverrideServerName fails: agents have no server names.
func (s *serverSide) OverrideServerName(string) error { return errNoNames }

var (
	protocol   = credentials.ProtocolInfo{SecurityProtocol: "tls"}
	errNoNames = errors.New("agents are known by allocation, not by name")
)

// Client returns the credentials for connections to the agent of one allocation.
// They send nothing to any other agent.
func (t *Transport) Client(allocID string) *ClientSide { return &ClientSide{t: t, alloc: allocID} }

// ClientSide are the credentials of connections to one allocation.
type ClientSide struct {
	t     *Transport
	alloc string

	mu    sync.Mutex
	until time.Time
}

// Until returns the time at which the newest connection ends, because the first of
// its two certificates expires. It is zero before the first connection.
func (c *ClientSide) Until() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until
}

// ClientHandshake authenticates both sides.
func (c *ClientSide) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var id Identity
	config, err := c.t.config(ctx, func(cs tls.ConnectionState) (err error) {
		if id, err = c.t.identify(ctx, cs, c.t.Verifier.verifyCalled); err == nil && id.AllocID != c.alloc {
			err = fmt.Errorf("%w: called allocation %s, and %s answers", ErrInvalid, c.alloc, id.AllocID)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	until := config.Certificates[0].Leaf.NotAfter
	if id.Until.Before(until) {
		until = id.Until
	}
	c.mu.Lock()
	c.until = until
	c.mu.Unlock()
	return &refusable{Conn: c.t.lease(conn, id), log: c.t.Logger, alloc: c.alloc}, c.t.info(id), nil
}

// ServerHandshake fails: these are a client's credentials.
func (c *ClientSide) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a client's")
}

// Info returns the name of the security protocol, as gRPC requires.
func (c *ClientSide) Info() credentials.ProtocolInfo { return protocol }

// Clone returns the same credentials, not a copy. gRPC connects with what Clone
// returns, and Until must know these connections.
func (c *ClientSide) Clone() credentials.TransportCredentials { return c }

// OverrideServerName fails: agents have no server names.
func (c *ClientSide) OverrideServerName(string) error { return errNoNames }

func (t *Transport) info(id Identity) peerInfo {
	return peerInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, id, t.Presence}
}

// config returns the TLS configuration of one connection, with the newest
// certificate.
func (t *Transport) config(ctx context.Context, verify func(tls.ConnectionState) error) (*tls.Config, error) {
	cert, err := t.Certifier.Certificate(ctx)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*cert},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{alpn},
		ClientAuth:   tls.RequireAnyClientCert,
		// There is neither an authority to verify against nor a name.
		// VerifyConnection checks what the certificate proves.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection:   verify,
		// A resumed connection would outlive the certificate that it began with.
		SessionTicketsDisabled: true,
	}, nil
}

// identify returns the identity of a connection's peer.
func (t *Transport) identify(ctx context.Context, cs tls.ConnectionState, verify func(context.Context, *x509.Certificate) (Identity, error)) (Identity, error) {
	switch {
	case len(cs.PeerCertificates) != 1:
		return Identity{}, fmt.Errorf("%w: %d certificates, want one", ErrInvalid, len(cs.PeerCertificates))
	case cs.NegotiatedProtocol != alpn:
		return Identity{}, fmt.Errorf("%w: the protocol is %q, want %q", ErrInvalid, cs.NegotiatedProtocol, alpn)
	}
	return verify(ctx, cs.PeerCertificates[0])
}

// noteRefusal logs why a peer was refused, at most once per interval.
func (t *Transport) noteRefusal(from net.Addr, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.refused) >= refusalsEvery {
		t.refused = now
		t.Logger.Warn("refused a connection", "from", from, "error", err)
	}
}
