// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
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
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest/authority"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

// nomadName is the one name of Nomad's own certificates.
const nomadName = "server.global.nomad"

func nomadLeaf(usage x509.ExtKeyUsage) authority.Leaf {
	return authority.Leaf{Names: []string{nomadName}, Usage: []x509.ExtKeyUsage{usage}}
}

// secure serves a world's Nomad over TLS and requires a client certificate.
func (w *world) secure(ca *authority.Authority, nomad http.Handler) *httptest.Server {
	cert, err := tls.LoadX509KeyPair(ca.Issue(nomadLeaf(x509.ExtKeyUsageServerAuth)))
	must.NoError(w.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
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

func TestController_TLSToNomad(t *testing.T) {
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
			ca := authority.New(t, "ca")
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
			cert, key := ca.Issue(nomadLeaf(x509.ExtKeyUsageClientAuth))
			set(t, &c.Nomad, ca.File, cert, key)
			w.start(c)
			w.job("a", 1, 4)
			w.eventually(map[string]int{"a": 4})
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return streams.Load() > 0 && blocking.Load() > 0 }),
				wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		})
	}
}

// The cause is in the autoscaler's log and in its status.
func TestController_ReportsWhyNomadCannotBeRead(t *testing.T) {
	w := newWorld(t, 1, 4)
	ca := authority.New(t, "ca")
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
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.ErrorContains(t, a.Health(), "set nomad { ca_cert }")
}

// TestController_TLSMistakes covers wrong settings, and the error messages that help.
func TestController_TLSMistakes(t *testing.T) {
	w := newWorld(t, 1, 4)
	ca, stranger := authority.New(t, "ca"), authority.New(t, "stranger")
	s := w.secure(ca, w.nomad)
	cert, key := ca.Issue(nomadLeaf(x509.ExtKeyUsageClientAuth))
	otherCert, otherKey := stranger.Issue(nomadLeaf(x509.ExtKeyUsageClientAuth))
	right := config.Nomad{Address: s.URL, Namespace: "*", Timeout: 5 * time.Second, CACert: ca.File, Cert: cert, Key: key, TLSServerName: nomadName}
	for name, tc := range map[string]struct {
		edit func(*config.Nomad)
		want string
	}{
		"nothing":             {func(*config.Nomad) {}, ""},
		"another authority":   {func(n *config.Nomad) { n.CACert = stranger.File }, "set nomad { ca_cert } or NOMAD_CACERT"},
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
				_, _, err = store.New(client.Client, "default", nil).LoadOverrides(t.Context())
			}
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}
