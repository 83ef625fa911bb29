// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

func TestTransport(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	addr, server := serve(t, w.transport(t, "aa11").Server())
	side := w.transport(t, "bb22").Client("aa11")
	must.True(t, side.Until().IsZero())
	client := dial(t, addr, side)
	must.NoError(t, ask(t, client))
	got := <-server.got
	must.Eq(t, Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "bb22"},
		Identity{Namespace: got.Namespace, JobID: got.JobID, Group: got.Group, Task: got.Task, AllocID: got.AllocID})
	must.True(t, side.Until().Equal(testNow.Add(certificateLife-startLeeway)))

	_, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.NoError(t, err)
	must.Eq(t, "bb22", (<-server.got).AllocID)
}

// TestTransport_strangers: none of these callers is admitted.
func TestTransport_strangers(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	w.reg.Add(registry.Peer{AllocID: "cc33"})
	server := w.transport(t, "aa11")
	server.Presence.take(server.Presence.source.Read(t.Context()))
	begun := time.Now()
	server.Presence.begun = begun.Add(-time.Hour) // it has been there for long
	addr, who := serve(t, server.Server())
	forger := newRSA(t, "rsa")
	token := w.issuer.sign(t, nomadClaims(func(c *claims) { c.AllocID = "bb22" }))
	noCertificate := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	for name, creds := range map[string]credentials.TransportCredentials{
		"plaintext":             insecure.NewCredentials(),
		"no certificate":        noCertificate,
		"another job's":         w.transport(t, "bb22", func(c *claims) { c.JobID = "other" }).Client("aa11"),
		"a sidecar's":           w.transport(t, "bb22", func(c *claims) { c.Task, c.Subject = "log", "global:ml:train:workers:log:kolo" }).Client("aa11"),
		"an ended allocation's": w.transport(t, "dd44").Client("aa11"),
		"signed by another":     w.transportFor(forger, forger.sign(t, nomadClaims(func(c *claims) { c.AllocID = "bb22" }))).Client("aa11"),
		"the claims only":       w.forged(t, token),
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, codes.Unavailable, status.Code(ask(t, dial(t, addr, creds))))
			must.Eq(t, 0, len(who.got))
		})
	}
	must.NoError(t, ask(t, dial(t, addr, w.transport(t, "bb22").Client("aa11"))))
}

// forged makes a certificate from a token whose signature it does not know.
func (w *world) forged(t *testing.T, token string) credentials.TransportCredentials {
	tr := w.transportFor(w.issuer, noSignature(token))
	tr.Certifier.token = noSignature(token)
	tr.Certifier.cert = forgeCertificate(t, noSignature(token), testNow, time.Minute)
	tr.Certifier.renew = testNow.Add(time.Hour)
	return tr.Client("aa11")
}

// boundConn is a connection of a listener that bounds how many there are.
type boundConn struct {
	net.Conn
	gone chan struct{}
}

func (boundConn) Admitted() {}

func (c boundConn) Gone() <-chan struct{} { return c.gone }

// TestTransport_evicted: a connection that was evicted for another one stops waiting for
// its proof to be verified.
func TestTransport_evicted(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	server := w.transport(t, "aa11")
	release := holdCallersTurn(server.Verifier.proofs)
	defer release()
	near, far := tcpPipe(t)
	gone, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := server.Server().ServerHandshake(boundConn{near, gone})
		ended <- err
	}()
	go func() { _, _, _ = w.transport(t, "bb22").Client("aa11").ClientHandshake(t.Context(), "", far) }()
	close(gone)
	select {
	case err := <-ended:
		must.ErrorIs(t, err, context.Canceled)
	case <-time.After(handshakeTimeout / 2):
		t.Fatal("the handshake goes on")
	}
}

// TestTransport_floodedServerDials: queued proofs of callers do not delay the connections
// that the agent opens itself.
func TestTransport_floodedServerDials(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	addr, _ := serve(t, w.transport(t, "aa11").Server())
	caller := w.transport(t, "bb22")
	release := holdCallersTurn(caller.Verifier.proofs)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), handshakeTimeout/2)
	defer cancel()
	_, err := dial(t, addr, caller.Client("aa11")).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	must.NoError(t, err)
}

// holdCallersTurn keeps the proof of another caller under verification until release.
func holdCallersTurn(p *proofs) (release func()) {
	p.callers <- struct{}{}
	return func() { <-p.callers }
}

// tcpPipe returns the two ends of a connection.
func tcpPipe(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	far, err = net.Dial("tcp", l.Addr().String())
	must.NoError(t, err)
	near, err = l.Accept()
	must.NoError(t, err)
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// readCounter counts reads of a registry.
type readCounter struct {
	registry.Registry
	reads atomic.Int32
}

func (c *readCounter) Read(ctx context.Context) registry.View {
	c.reads.Add(1)
	return c.Registry.Read(ctx)
}

// TestTransport_replayedCertificate: a caller that shows a certificate without its key
// causes no registry read.
func TestTransport_replayedCertificate(t *testing.T) {
	w := newWorld(t, "aa11")
	server := w.transport(t, "aa11")
	reg := &readCounter{Registry: w.reg}
	server.Presence.source = reg
	handshake := func(certs ...tls.Certificate) error {
		near, far := tcpPipe(t)
		ended := make(chan error, 1)
		go func() {
			_, _, err := server.Server().ServerHandshake(near)
			ended <- err
		}()
		_ = tls.Client(far, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{alpn}, Certificates: certs}).HandshakeContext(t.Context())
		return <-ended
	}
	cert, err := w.transport(t, "bb22").Certifier.Certificate(t.Context())
	must.NoError(t, err)
	_, other, err := ed25519.GenerateKey(nil)
	must.NoError(t, err)
	must.ErrorContains(t, handshake(tls.Certificate{Certificate: cert.Certificate, PrivateKey: other}), "signature")
	must.Zero(t, reg.reads.Load())

	server.Presence.begun = testNow.Add(-time.Hour) // it has been there for long
	must.ErrorIs(t, handshake(*cert), ErrNotLive)
	must.Eq(t, 1, reg.reads.Load())
}

// TestTransport_refusedCaller: a caller that the server refuses logs that; the reason is in
// the server's log.
func TestTransport_refusedCaller(t *testing.T) {
	for name, first := range map[string]error{"an alert": &net.OpError{Op: "remote error", Err: errors.New("bad certificate")}, "the end": io.EOF} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c := &refusable{Conn: failingConn{err: first}, log: hclog.New(&hclog.LoggerOptions{Output: &out}), alloc: "aa11"}
			for range 2 {
				_, err := c.Read(make([]byte, 1))
				must.ErrorIs(t, err, first)
			}
			must.Eq(t, 1, strings.Count(out.String(), "a peer refuses this agent"))
		})
	}
	var out bytes.Buffer
	near, far := net.Pipe()
	c := &refusable{Conn: near, log: hclog.New(&hclog.LoggerOptions{Output: &out})}
	go func() { _, _ = far.Write([]byte{1}); _ = far.Close() }()
	_, err := io.ReadAll(c)
	must.NoError(t, err)
	must.Eq(t, "", out.String(), must.Sprint("it was let in"))
}

// failingConn cannot be read from.
type failingConn struct {
	net.Conn
	err error
}

func (c failingConn) Read([]byte) (int, error) { return 0, c.err }

// TestTransport_clocks: agents whose clocks differ by less than startLeeway accept each
// other, even if certificate and identity have just been made.
func TestTransport_clocks(t *testing.T) {
	for _, ahead := range []time.Duration{-110 * time.Second, -45 * time.Second, 45 * time.Second, 110 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			w := newWorld(t, "aa11", "bb22")
			addr, _ := serve(t, w.transport(t, "aa11").Server())
			caller := w.transport(t, "bb22", func(c *claims) {
				c.IssuedAt = jwt.NewNumericDate(testNow.Add(ahead))
				c.NotBefore = c.IssuedAt
			})
			caller.Certifier.now = func() time.Time { return testNow.Add(ahead) }
			caller.Verifier.now = caller.Certifier.now
			must.NoError(t, ask(t, dial(t, addr, caller.Client("aa11"))))
		})
	}
}

// TestTransport_portReuse: a process of another job that listens at the port of an ended
// allocation receives neither an identity nor a call.
func TestTransport_portReuse(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	token := w.issuer.sign(t, nomadClaims(func(c *claims) { c.AllocID = "bb22" }))
	caller := w.transportFor(w.issuer, token)
	signature, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndex(token, ".")+1:])
	must.NoError(t, err)

	other := w.transport(t, "cc33", func(c *claims) { c.JobID = "other" })
	fellow := w.transport(t, "cc33")
	for name, creds := range map[string]credentials.TransportCredentials{
		"another job's agent": other.Server(), "another allocation of the job": fellow.Server(),
	} {
		t.Run(name, func(t *testing.T) {
			addr, who := serve(t, creds)
			addr, seen := recorded(t, addr)
			must.Eq(t, codes.Unavailable, status.Code(ask(t, dial(t, addr, caller.Client("aa11")))))
			must.Eq(t, 0, len(who.got))
			var got []byte
			eventually(t, func() error {
				if got = seen(); len(got) == 0 {
					return errors.New("nothing has come")
				}
				return nil
			})
			must.False(t, bytes.Contains(got, signature))
			must.False(t, bytes.Contains(got, []byte(token[strings.LastIndex(token, ".")+1:])))
			must.False(t, bytes.Contains(got, []byte("/grpc.health.v1.Health/Check")))
			must.False(t, bytes.Contains(got, []byte("bb22")), must.Sprint("nor who calls"))
		})
	}
}

// recorded passes connections on and records the callers' data.
func recorded(t *testing.T, addr string) (string, func() []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	var seen bytes.Buffer
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
			go func() {
				defer far.Close()
				b := make([]byte, 4096)
				for {
					n, err := near.Read(b)
					mu.Lock()
					seen.Write(b[:n])
					mu.Unlock()
					if _, werr := far.Write(b[:n]); err != nil || werr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(seen.Bytes())
	}
}

// TestTransport_expiry: a connection ends when the peer's certificate expires, and the next
// call opens another one with a new certificate.
func TestTransport_expiry(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	server := w.transport(t, "aa11")
	addr, who := serve(t, server.Server())
	caller := w.transport(t, "bb22")
	client := dial(t, addr, caller.Client("aa11"))
	// The server's clock leaves some time of the certificate and the leeway. On a busy
	// machine that may be over before the call arrives, so it tries again with more.
	var left atomic.Int64
	server.Verifier.now = func() time.Time {
		return testNow.Add(certificateLife - startLeeway + clockLeeway - time.Duration(left.Load()))
	}
	for left.Store(int64(100 * time.Millisecond)); len(who.got) == 0; left.Store(2 * left.Load()) {
		s, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		must.Eq(t, codes.Unavailable, status.Code(err), must.Sprint(err))
	}
	must.Eq(t, "bb22", (<-who.got).AllocID)

	w.keys.set(func(f *fakeKeys) { f.now = testNow.Add(certificateLife + time.Second) })
	server.Verifier.now = w.keys.clock
	must.NoError(t, ask(t, client))
}

// TestTransport_outage: while Nomad cannot be reached, no certificate can be renewed.
func TestTransport_outage(t *testing.T) {
	w := newWorld(t, "aa11", "bb22")
	tr := w.transport(t, "aa11")
	near, far := net.Pipe()
	defer far.Close()
	now := time.Now()
	tr.Presence.now = func() time.Time { return now }
	tr.Presence.take(registry.View{Err: nomadapi.ErrUnreachable})
	conn := tr.lease(near, Identity{AllocID: "bb22", Until: testNow.Add(-time.Hour)}).(*leased)
	conn.expire()
	go func() { _, _ = far.Write([]byte("x")) }()
	_, err := conn.Read(make([]byte, 1))
	must.NoError(t, err)
	tr.Presence.take(registry.View{At: now})
	now = now.Add(2 * renewalGrace)
	conn.expire()
	_, err = conn.Read(make([]byte, 1))
	must.ErrorIs(t, err, io.ErrClosedPipe)
	must.NoError(t, conn.Close())
	conn.expire() // too late to matter
}
