// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// authority signs certificates that live as long as a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	ca := &authority{t: t}
	var err error
	ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	raw := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &ca.key.PublicKey)
	ca.cert, err = x509.ParseCertificate(raw)
	must.NoError(t, err)
	ca.file = ca.write(name+".pem", "CERTIFICATE", raw)
	return ca
}

func (ca *authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := ca.cert
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key, ca.key)
	must.NoError(ca.t, err)
	return raw
}

func (ca *authority) write(name, kind string, raw []byte) string {
	path := filepath.Join(ca.t.TempDir(), name)
	must.NoError(ca.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
	return path
}

// pair issues a certificate and returns its files. Its only name is the one
// that Nomad's own certificates have.
func (ca *authority) pair(usage x509.ExtKeyUsage) (cert, key string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(ca.t, err)
	raw := ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: nomadName}, DNSNames: []string{nomadName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, &k.PublicKey)
	der, err := x509.MarshalECPrivateKey(k)
	must.NoError(ca.t, err)
	return ca.write("cert.pem", "CERTIFICATE", raw), ca.write("key.pem", "EC PRIVATE KEY", der)
}

const nomadName = "server.global.nomad"

// secure serves a world's Nomad over TLS and wants a client certificate.
func (w *world) secure(ca *authority, nomad http.Handler) *httptest.Server {
	cert, err := tls.LoadX509KeyPair(ca.pair(x509.ExtKeyUsageServerAuth))
	must.NoError(w.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	s := httptest.NewUnstartedServer(nomad)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func TestAgent_TLSToNomad(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, n *config.Nomad, ca, cert, key string){
		"configuration": func(_ *testing.T, n *config.Nomad, ca, cert, key string) {
			n.CACert, n.Cert, n.Key, n.TLSServerName = ca, cert, key, nomadName
		},
		"environment": func(t *testing.T, _ *config.Nomad, ca, cert, key string) {
			t.Setenv("NOMAD_CACERT", ca)
			t.Setenv("NOMAD_CLIENT_CERT", cert)
			t.Setenv("NOMAD_CLIENT_KEY", key)
			t.Setenv("NOMAD_TLS_SERVER_NAME", nomadName)
		},
		"a directory of authorities": func(_ *testing.T, n *config.Nomad, ca, cert, key string) {
			n.CAPath, n.Cert, n.Key, n.TLSServerName = filepath.Dir(ca), cert, key, nomadName
		},
		"no verification": func(_ *testing.T, n *config.Nomad, _, cert, key string) {
			n.Cert, n.Key, n.SkipVerify = cert, key, true
		},
		"no verification by environment": func(t *testing.T, n *config.Nomad, _, cert, key string) {
			n.Cert, n.Key = cert, key
			t.Setenv("NOMAD_SKIP_VERIFY", "true")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 4)
			ca := newAuthority(t, "ca")
			var streams, blocking atomic.Int32
			s := w.secure(ca, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/event/stream" {
					streams.Add(1)
				}
				if i := r.URL.Query().Get("index"); i != "" && i != "0" {
					blocking.Add(1)
				}
				w.nomad.ServeHTTP(rw, r)
			}))
			c := w.config()
			c.Nomad.Address = s.URL
			cert, key := ca.pair(x509.ExtKeyUsageClientAuth)
			set(t, &c.Nomad, ca.file, cert, key)
			w.start(c)
			w.job("a", 1, 4)
			w.eventually(map[string]int{"a": 4})
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return streams.Load() > 0 && blocking.Load() > 0 }),
				wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
		})
	}
}

// TestAgent_SaysWhyNomadCannotBeRead says that the mistake is seen by who asks
// the agent, not in its log alone.
func TestAgent_SaysWhyNomadCannotBeRead(t *testing.T) {
	w := newWorld(t, 1, 4)
	ca := newAuthority(t, "ca")
	c := w.config()
	c.Nomad.Address, c.Nomad.TLSServerName = w.secure(ca, w.nomad).URL, nomadName
	a, err := New(c, nil, hclog.NewNullLogger())
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		must.NoError(t, <-done)
	}()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return strings.Contains(a.Status().Problem, "set nomad { ca_cert }") }),
		wait.Timeout(20*time.Second), wait.Gap(5*time.Millisecond)))
	must.ErrorContains(t, a.Health(), "set nomad { ca_cert }")
}

// TestAgent_TLSMistakes has what users set wrong, and the words that help.
func TestAgent_TLSMistakes(t *testing.T) {
	w := newWorld(t, 1, 4)
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	s := w.secure(ca, w.nomad)
	cert, key := ca.pair(x509.ExtKeyUsageClientAuth)
	otherCert, otherKey := stranger.pair(x509.ExtKeyUsageClientAuth)
	right := config.Nomad{Address: s.URL, Namespace: "*", Timeout: 5 * time.Second, CACert: ca.file, Cert: cert, Key: key, TLSServerName: nomadName}
	for name, tc := range map[string]struct {
		edit func(*config.Nomad)
		want string
	}{
		"nothing":             {func(*config.Nomad) {}, ""},
		"another authority":   {func(n *config.Nomad) { n.CACert = stranger.file }, "set nomad { ca_cert } or NOMAD_CACERT"},
		"no authority":        {func(n *config.Nomad) { n.CACert = "" }, "set nomad { ca_cert } or NOMAD_CACERT"},
		"another name":        {func(n *config.Nomad) { n.TLSServerName = "server.eu.nomad" }, "set nomad { tls_server_name }"},
		"no name":             {func(n *config.Nomad) { n.TLSServerName = "" }, "set nomad { tls_server_name }"},
		"no certificate":      {func(n *config.Nomad) { n.Cert, n.Key = "", "" }, "set nomad { client_cert, client_key }"},
		"another's":           {func(n *config.Nomad) { n.Cert, n.Key = otherCert, otherKey }, "set nomad { client_cert, client_key }"},
		"key of another":      {func(n *config.Nomad) { n.Key = otherKey }, "private key does not match public key"},
		"certificate, no key": {func(n *config.Nomad) { n.Key = "" }, "TLS to Nomad: "},
		"no PEM": {func(n *config.Nomad) {
			n.CACert = filepath.Join(t.TempDir(), "x")
			must.NoError(t, os.WriteFile(n.CACert, nil, 0o600))
		}, "TLS to Nomad: "},
		"TLS to none": {func(n *config.Nomad) { n.Address = strings.Replace(w.server.URL, "http:", "https:", 1) }, "write http:// in nomad { address }"},
		"none to TLS": {func(n *config.Nomad) { n.Address = strings.Replace(s.URL, "https:", "http:", 1) }, "HTTP request to an HTTPS server"},
	} {
		t.Run(name, func(t *testing.T) {
			n := right
			tc.edit(&n)
			client, err := cluster.NewClient(n)
			if err == nil {
				_, err = (&vault{client: client.Client, namespace: "default", saved: map[string]string{}}).load(t.Context(), controlPath)
			}
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}
