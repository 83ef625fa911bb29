// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest/authority"
)

// TestClient_Order checks where a command looks for an autoscaler.
func TestClient_Order(t *testing.T) {
	dir := t.TempDir()
	sockets := socket.Places{UID: os.Getuid(), System: filepath.Join(dir, "system"), Runtime: dir}
	found := func(r clientFlags) string {
		t.Helper()
		r.sockets = sockets
		to, err := r.client(t.Context())
		must.NoError(t, err)
		return to.name
	}
	must.Eq(t, defaultAddress, found(clientFlags{}))
	l, err := socket.Listen(sockets.Default(8648), "")
	must.NoError(t, err)
	defer l.Close()
	must.Eq(t, "unix://"+l.Addr().String(), found(clientFlags{}))
	must.Eq(t, "http://10.0.0.1:8648", found(clientFlags{address: "10.0.0.1:8648"}))
	must.Eq(t, "unix:///tmp/x", found(clientFlags{address: "unix:///tmp/x"}))
}

func TestClient_Environment(t *testing.T) {
	for name, value := range map[string]string{
		"KOLO_ADDR": "https://a", "KOLO_CACERT": "b", "KOLO_CAPATH": "c", "KOLO_CLIENT_CERT": "d", "KOLO_CLIENT_KEY": "e",
		"KOLO_TLS_SERVER_NAME": "f", "KOLO_SKIP_VERIFY": "true",
	} {
		t.Setenv(name, value)
	}
	var r clientFlags
	m := meta{UI: cli.NewMockUi()}
	f := m.flags("status")
	must.NoError(t, r.register(f))
	must.NoError(t, f.Parse(nil))
	must.Eq(t, "https://a", r.address)
	must.Eq(t, []any{"b", "c", "d", "e", "f", true}, []any{r.tls.CACert, r.tls.CAPath, r.tls.ClientCert, r.tls.ClientKey, r.tls.TLSServerName, r.tls.Insecure})
	must.NoError(t, f.Parse([]string{"-ca-cert=x", "-tls-skip-verify=false"}))
	must.Eq(t, "x", r.tls.CACert)
	must.False(t, r.tls.Insecure)

	t.Setenv("KOLO_SKIP_VERIFY", "maybe")
	d := &daemon{t: t}
	code, out := d.run("status")
	must.Eq(t, 2, code)
	must.StrContains(t, out, "KOLO_SKIP_VERIFY=maybe: write true or false")
}

// TestClient_TLS covers wrong settings, and the error messages that help.
func TestClient_TLS(t *testing.T) {
	ca, stranger := authority.New(t, "ca"), authority.New(t, "stranger")
	pair, err := tls.LoadX509KeyPair(ca.Issue(authority.Leaf{Names: []string{"kolo.example"}}))
	must.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	clients := x509.NewCertPool()
	clients.AddCert(ca.Cert)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	cert, key := ca.Issue(authority.Leaf{Names: []string{"operator"}})
	otherCert, otherKey := stranger.Issue(authority.Leaf{Names: []string{"operator"}})
	right := []string{"-address=" + s.URL, "-ca-cert=" + ca.File, "-client-cert=" + cert, "-client-key=" + key, "-tls-server-name=kolo.example"}
	for name, tc := range map[string]struct {
		more []string
		code int
		want string
	}{
		"right":               {nil, 0, ""},
		"another name":        {[]string{"-tls-server-name=kolo-2.example"}, 1, "use one of its names in -address, or give it with -tls-server-name (KOLO_TLS_SERVER_NAME)"},
		"another authority":   {[]string{"-ca-cert=" + stranger.File}, 1, "give the authority that signed it with -ca-cert (KOLO_CACERT)"},
		"not verified":        {[]string{"-ca-cert=" + stranger.File, "-tls-skip-verify"}, 0, ""},
		"another's":           {[]string{"-client-cert=" + otherCert, "-client-key=" + otherKey}, 1, "give one with -client-cert and -client-key"},
		"no pair":             {[]string{"-client-key=" + otherKey}, 2, "private key does not match public key"},
		"certificate, no key": {[]string{"-client-key="}, 2, "TLS to the autoscaler"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &daemon{t: t}
			code, out := d.run(append(append([]string{"policy", "get"}, right...), tc.more...)...)
			must.Eq(t, tc.code, code, must.Sprint(out))
			must.StrContains(t, out, tc.want)
		})
	}
}

func TestClient_AnotherUsersSocket(t *testing.T) {
	err := socketClient("/run/kolo/kolo.sock", dialUnix).explain(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)})
	must.ErrorContains(t, err, "the socket unix:///run/kolo/kolo.sock is another user's: run kolo as that user or root, or use -address and NOMAD_TOKEN")
}
