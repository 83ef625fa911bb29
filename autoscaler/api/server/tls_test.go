// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest/authority"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// loopback is a certificate for an autoscaler of this machine.
var loopback = authority.Leaf{Names: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}

// block reads the tls block of a configuration.
func block(t *testing.T, cert, key, more string) config.TLS {
	t.Helper()
	c, err := config.Parse(map[string][]byte{"kolo.hcl": fmt.Appendf(nil, "http {\n tls {\n cert_file = %q\n key_file = %q\n %s\n }\n}\n", cert, key, more)})
	must.NoError(t, err)
	return c.HTTP.TLS
}

// secured serves a world's API with TLS at an address of its own.
func (w *world) secured(t *testing.T) string {
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- w.api.Serve(ctx, config.HTTP{Bind: "127.0.0.1", Unix: config.NoSocket, TLS: w.agent.Config().HTTP.TLS}, func(a net.Addr) { up <- a })
	}()
	t.Cleanup(func() {
		cancel()
		must.NoError(t, <-done)
	})
	return "https://" + (<-up).String()
}

// client trusts an authority, and shows a certificate if one is given.
func client(t *testing.T, ca *authority.Authority, pair ...string) *http.Client {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS10} // to see the server refuse it
	c.RootCAs.AddCert(ca.Cert)
	if len(pair) == 2 {
		cert, err := tls.LoadX509KeyPair(pair[0], pair[1])
		must.NoError(t, err)
		c.Certificates = []tls.Certificate{cert}
	}
	tr := &http.Transport{TLSClientConfig: c}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func status(c *http.Client, url string) (int, error) {
	resp, err := c.Get(url + "/v1/status")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestTLS_ServesWhatIsInForce(t *testing.T) {
	old, renewed := authority.New(t, "old"), authority.New(t, "new")
	cert, key := old.Issue(loopback)
	w := start(t, func(c *config.Config) { c.HTTP.TLS = block(t, cert, key, "") })
	url := w.secured(t)
	code, err := status(client(t, old), url)
	must.NoError(t, err)
	must.Eq(t, 200, code)

	_, err = status(client(t, renewed), url)
	must.ErrorContains(t, err, "unknown authority")
	outdated := client(t, old)
	outdated.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	_, err = status(outdated, url)
	must.ErrorContains(t, err, "protocol version")
	resp, err := http.Get("http" + url[len("https"):] + "/v1/status")
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, 400, resp.StatusCode)

	t.Log("another certificate is served as soon as it is in force")
	cert, key = renewed.Issue(loopback)
	next := *w.config
	next.HTTP.TLS = block(t, cert, key, "")
	must.NoError(t, w.agent.Reload(&next))
	code, err = status(client(t, renewed), url)
	must.NoError(t, err)
	must.Eq(t, 200, code)

	t.Log("whether there is TLS requires a restart")
	plain := next
	plain.HTTP.TLS = config.TLS{}
	must.ErrorContains(t, w.agent.Reload(&plain), "whether there is TLS")
}

func TestTLS_VerifiesClients(t *testing.T) {
	ca, stranger := authority.New(t, "ca"), authority.New(t, "stranger")
	cert, key := ca.Issue(loopback)
	w := start(t, func(c *config.Config) {
		c.HTTP.TLS = block(t, cert, key, fmt.Sprintf("ca_file = %q\nverify_client = true", ca.File))
	})
	url := w.secured(t)
	_, err := status(client(t, ca), url)
	must.ErrorContains(t, err, "certificate required")
	otherCert, otherKey := stranger.Issue(loopback)
	_, err = status(client(t, ca, otherCert, otherKey), url)
	must.Error(t, err)
	mine, mineKey := ca.Issue(authority.Leaf{Names: []string{"operator"}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	code, err := status(client(t, ca, mine, mineKey), url)
	must.NoError(t, err)
	must.Eq(t, 200, code)
}

// TestTLS_Forward has a follower pass commands on to a leader that verifies
// who calls.
func TestTLS_Forward(t *testing.T) {
	ca, stranger := authority.New(t, "ca"), authority.New(t, "stranger")
	verifying := func(from *authority.Authority) config.TLS {
		cert, key := from.Issue(loopback)
		return block(t, cert, key, fmt.Sprintf("ca_file = %q\nverify_client = true", ca.File))
	}
	w := start(t, func(c *config.Config) { c.Name, c.HTTP.TLS = "leader", verifying(ca) })
	url := w.secured(t)
	at := func(address string) {
		w.nomad.EditVariable("kolo/leader", func(items map[string]string) { items["address"] = address })
	}
	at(url)
	follower := func(from *authority.Authority) *world {
		c := *w.config
		c.Name, c.HTTP.TLS = "follower", verifying(from)
		f := &world{nomad: w.nomad, config: &c}
		f.run(t, &c)
		return f
	}
	f := follower(ca)
	code, text := f.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "friend")
	must.Eq(t, 200, code, must.Sprint(text))
	w.paused(t)
	must.StrContains(t, f.log.String(), `reason="passed on to leader" result=ok`)
	must.StrContains(t, w.log.String(), `via="follower for 127.0.0.1"`)

	t.Log("a follower with another authority's certificate is refused")
	code, text = follower(stranger).do(t, "PUT", "/v1/resume", "{}", "X-Nomad-Token", "friend")
	must.Eq(t, 502, code, must.Sprint(text))

	t.Log("no token goes where there is no TLS")
	at(w.url)
	code, text = f.do(t, "PUT", "/v1/resume", "{}", "X-Nomad-Token", "secret")
	must.Eq(t, 502, code)
	must.StrContains(t, text, "a token would cross the network in the clear")
}

func TestTLS_AnOldFileIsNoSurprise(t *testing.T) {
	ca := authority.New(t, "ca")
	cert, key := ca.Issue(loopback)
	c := block(t, cert, key, "")
	must.NoError(t, os.Remove(filepath.Clean(key)))
	out, err := serving(&c)
	must.NoError(t, err, must.Sprint("it is in memory"))
	must.Len(t, 1, out.Certificates)
	_, err = serving(&config.TLS{})
	must.ErrorContains(t, err, "requires a restart")
}
