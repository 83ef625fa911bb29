// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/possession"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// emptyRegistry names no one: an agent that only calls others asks it nothing.
type emptyRegistry struct{}

func (emptyRegistry) Watch(context.Context) <-chan registry.View { return nil }
func (emptyRegistry) Read(context.Context) registry.View         { return registry.View{At: time.Now()} }

// A peer is what a test needs to call agents as an allocation's agent does.
type peer struct {
	alloc     string
	transport *discovery.Transport
	// cert is a certificate as it was when the peer was made.
	cert *tls.Certificate
}

// newPeer takes the identity of an allocation as it is now.
func newPeer(ctx context.Context, t *testing.T, tr *training, alloc *api.AllocationListStub) peer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	must.NoError(t, os.WriteFile(file, []byte(peerToken(t, tr, alloc)), 0o600))
	token := filepath.Join(t.TempDir(), "token")
	must.NoError(t, os.WriteFile(token, []byte(tr.c.Token), 0o600))
	keys, err := discovery.NewKeys(tr.c.Address, nomadapi.Token{File: token})
	must.NoError(t, err)
	certifier := discovery.NewCertifier(nomadapi.Token{File: file}, keys)
	p := peer{alloc: alloc.ID, transport: &discovery.Transport{
		Certifier: certifier,
		Verifier: discovery.NewVerifier(discovery.VerifierOptions{Namespace: "default", JobID: alloc.JobID,
			Group: alloc.TaskGroup, Task: "train", Keys: keys}),
		Presence: discovery.NewPresence(emptyRegistry{}, alloc.JobID, time.Minute),
		Logger:   hclog.NewNullLogger(),
	}}
	must.NoError(t, cluster.Until(ctx, "a certificate, for which Nomad is asked for its keys", func(ctx context.Context) error {
		p.cert, err = certifier.Certificate(ctx)
		return err
	}))
	return p
}

// with returns the credentials of a caller that presents a certificate to anyone.
func with(cert tls.Certificate) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
}

// instance returns the address of an allocation's agent.
func instance(ctx context.Context, t *testing.T, tr *training, alloc string) string {
	t.Helper()
	services, _, err := tr.c.API.Services().Get("horovod", query(ctx))
	must.NoError(t, err)
	for _, s := range services {
		if s.AllocID == alloc {
			return net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
		}
	}
	t.Fatalf("allocation %s is not registered", alloc)
	return ""
}

// refusesStrangers calls an agent as its peers would: with a good identity, and
// with what others may have. old is an identity that expires meanwhile.
func refusesStrangers(ctx context.Context, t *testing.T, tr *training, old peer) {
	t.Helper()
	own := tr.running(ctx, 2)
	addr := instance(ctx, t, tr, own[0].ID)
	call := func(creds credentials.TransportCredentials, from string) (codes.Code, string) {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds))
		must.NoError(t, err)
		defer conn.Close()
		r := &discoverypb.Request{State: &discoverypb.State{From: &discoverypb.Peer{AllocId: from}, Process: 1}}
		_, err = discoverypb.NewElectionClient(conn).Probe(ctx, r)
		return status.Code(err), status.Convert(err).Message()
	}
	refused := func(who string, creds credentials.TransportCredentials) {
		t.Helper()
		code, message := call(creds, own[1].ID)
		t.Logf("an agent with %s: %s: %s", who, code, message)
		must.Eq(t, codes.Unavailable, code)
	}
	accepted := func() {
		t.Helper()
		code, message := call(newPeer(ctx, t, tr, own[1]).transport.Client(own[0].ID), own[1].ID)
		must.Eq(t, codes.OK, code, must.Sprint(message))
	}

	accepted()
	good := newPeer(ctx, t, tr, own[1])
	code, _ := call(good.transport.Client(own[0].ID), own[0].ID+"x")
	must.Eq(t, codes.PermissionDenied, code, must.Sprint("it speaks for another"))
	// Nor is a call made where another allocation answers than was called.
	code, message := call(good.transport.Client(own[1].ID), own[1].ID)
	must.Eq(t, codes.Unavailable, code)
	must.StrContains(t, message, "called allocation "+own[1].ID)

	refused("no TLS", insecure.NewCredentials())
	refused("no certificate", credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	refused("a certificate without proof", with(selfSigned(t, nil)))
	refused("a peer's proof and a key of its own", with(selfSigned(t, proofOf(t, good.cert))))
	refused("a peer's claims, and not their signature", with(selfSigned(t, worthless(t, proofOf(t, good.cert)))))

	other := startTraining(ctx, t, tr.c, trainingOptions{})
	stranger := newPeer(ctx, t, other, other.running(ctx, 1)[0])
	refused("another job's identity", with(*stranger.cert))

	must.NoError(t, cluster.Until(ctx, "the first identity to expire", func(context.Context) error {
		if code, message := call(with(*old.cert), old.alloc); code != codes.Unavailable {
			return fmt.Errorf("the agent says %s: %s", code, message)
		}
		return nil
	}))
	refused("an identity that has expired", with(*old.cert))
	// It was renewed meanwhile, so that the workers still know each other.
	accepted()
}

// proofOf returns the extension with the proof of a certificate.
func proofOf(t *testing.T, cert *tls.Certificate) *pkix.Extension {
	for _, e := range cert.Leaf.Extensions {
		if _, err := possession.Parse(e.Value); err == nil {
			return &e
		}
	}
	t.Fatal("the certificate holds no proof")
	return nil
}

// worthless returns a proof that anyone who has seen the claims can make.
func worthless(t *testing.T, e *pkix.Extension) *pkix.Extension {
	p, err := possession.Parse(e.Value)
	must.NoError(t, err)
	_, err = rand.Read(p.Body)
	must.NoError(t, err)
	value, err := p.Marshal()
	must.NoError(t, err)
	return &pkix.Extension{Id: e.Id, Critical: true, Value: value}
}

// selfSigned returns a certificate of a stranger's.
func selfSigned(t testing.TB, extension *pkix.Extension) tls.Certificate {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must.NoError(t, err)
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(time.Minute)}
	if extension != nil {
		template.ExtraExtensions = []pkix.Extension{*extension}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	must.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// keepsSecrets has a stranger take the port of an agent that has ended while its
// peers still call it, and looks at all that they send there.
func keepsSecrets(ctx context.Context, t *testing.T, tr *training) {
	t.Helper()
	if !tr.c.Isolated() {
		t.Log("without network namespaces, the stranger is left out")
		return
	}
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	own := tr.running(ctx, 2)
	victim := leader(ctx, t, tr)
	addr := instance(ctx, t, tr, victim.ID)
	agents := cluster.Agents(victim.ID)
	must.Len(t, 1, agents)
	heard := filepath.Join(t.TempDir(), "heard")
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(tr.c.NodeOf(victim).PID()), "-n", os.Args[0], "-test.run=^TestStranger$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "KOLO_STRANGER="+addr, "KOLO_HEARD="+heard)
	must.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	must.NoError(t, agents[0].Kill())

	var got []byte
	must.NoError(t, cluster.Until(ctx, "a peer to call the stranger", func(context.Context) error {
		var err error
		if got, err = os.ReadFile(heard); err != nil || bytes.Count(got, []byte("\n-- ")) < 5 {
			return fmt.Errorf("it has heard %d bytes: %w", len(got), err)
		}
		return nil
	}))
	t.Logf("the stranger has heard %d bytes in %d connections", len(got), bytes.Count(got, []byte("\n-- ")))
	must.True(t, bytes.Contains(got, []byte("\n-- ended: ")))
	for _, alloc := range own {
		must.False(t, bytes.Contains(got, []byte(alloc.ID)), must.Sprint("nor who calls"))
		for _, name := range []string{"nomad_kolo.jwt", "nomad_token"} {
			token := strings.TrimSpace(secret(t, tr, alloc, name))
			signature := token[strings.LastIndex(token, ".")+1:]
			raw, err := base64.RawURLEncoding.DecodeString(signature)
			must.NoError(t, err)
			must.False(t, bytes.Contains(got, raw) || bytes.Contains(got, []byte(signature)), must.Sprint(name))
		}
	}
	for _, word := range []string{"/kolo.driver", "Bearer", "authorization"} {
		must.False(t, bytes.Contains(got, []byte(word)), must.Sprint(word))
	}
}

// TestStranger is the program that keepsSecrets runs. It accepts every connection,
// speaks TLS with anyone, and records what it receives, including decrypted data.
func TestStranger(t *testing.T) {
	addr := os.Getenv("KOLO_STRANGER")
	if addr == "" {
		t.Skip("runs as a part of TestACL only")
	}
	var l net.Listener
	must.NoError(t, cluster.Until(t.Context(), "the port", func(context.Context) (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	}))
	out, err := os.Create(os.Getenv("KOLO_HEARD"))
	must.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.NoError(t, err)
	for i := 0; ; i++ {
		conn, err := l.Accept()
		must.NoError(t, err)
		cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		if i%2 == 1 {
			cert = selfSigned(t, nil)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		end := listenTo(tls.Server(heardConn{conn, out}, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"},
			ClientAuth: tls.RequestClientCert}), out)
		fmt.Fprintf(out, "\n-- ended: %v\n", end)
		_ = conn.Close()
	}
}

// listenTo writes down what comes over a TLS connection, the caller's
// certificate included.
func listenTo(conn *tls.Conn, out *os.File) error {
	if err := conn.Handshake(); err != nil {
		return err
	}
	for _, cert := range conn.ConnectionState().PeerCertificates {
		fmt.Fprintf(out, "certificate %s", cert.Raw)
	}
	b := make([]byte, 4096)
	for {
		n, err := conn.Read(b)
		if _, werr := out.Write(b[:n]); err != nil || werr != nil {
			return err
		}
	}
}

type heardConn struct {
	net.Conn
	out *os.File
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, _ = c.out.Write(b[:n])
	return n, err
}
