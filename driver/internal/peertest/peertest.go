// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package peertest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/internal/registrytest"
)

// Nomad signs identities for the tasks "train" of a job "resnet" in the namespace
// "ml", and knows which of its allocations are live.
type Nomad struct {
	t       testing.TB
	signer  jose.Signer
	address string
	live    *registrytest.Static
	bearer  nomadapi.Token // for Nomad itself, which accepts any token here
}

// New returns a Nomad with live allocations.
func New(t testing.TB, allocs ...string) *Nomad {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	must.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "k"))
	must.NoError(t, err)
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "k", Algorithm: string(jose.RS256), Use: "sig"}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(keys) }))
	t.Cleanup(server.Close)
	n := &Nomad{t: t, signer: signer, address: server.URL, live: registrytest.NewStatic()}
	for _, a := range allocs {
		n.live.Add(registry.Peer{AllocID: a})
	}
	n.bearer = nomadapi.Token{File: filepath.Join(t.TempDir(), "nomad_token")}
	must.NoError(t, os.WriteFile(n.bearer.File, []byte("any"), 0o600))
	return n
}

// Sign writes a new identity of the allocation, which expires after ttl, to the
// file.
func (n *Nomad) Sign(file, alloc string, ttl time.Duration) {
	now := time.Now()
	token, err := jwt.Signed(n.signer).Claims(map[string]any{
		"sub": "global:ml:resnet:workers:train:kolo", "aud": discovery.Audience,
		"iat": now.Unix(), "exp": now.Add(ttl).Unix(), "jti": now.String(),
		"nomad_namespace": "ml", "nomad_job_id": "resnet", "nomad_allocation_id": alloc, "nomad_task": "train",
	}).Serialize()
	must.NoError(n.t, err)
	must.NoError(n.t, os.WriteFile(file+".new", []byte(token), 0o600))
	must.NoError(n.t, os.Rename(file+".new", file))
}

// Transport returns the transport of an agent in the allocation, with an identity
// for one hour.
func (n *Nomad) Transport(alloc string) *discovery.Transport {
	file := filepath.Join(n.t.TempDir(), "nomad_kolo.jwt")
	n.Sign(file, alloc, time.Hour)
	return n.TransportFrom(file)
}

// TransportFrom returns the transport of an agent whose identity is in the file.
func (n *Nomad) TransportFrom(file string) *discovery.Transport {
	keys, err := discovery.NewKeys(n.address, n.bearer)
	must.NoError(n.t, err)
	return &discovery.Transport{
		Certifier: discovery.NewCertifier(nomadapi.Token{File: file}, keys),
		Verifier:  discovery.NewVerifier(discovery.VerifierOptions{Namespace: "ml", JobID: "resnet", Group: "workers", Task: "train", Keys: keys}),
		Presence:  discovery.NewPresence(n.live, "resnet", time.Minute),
		Logger:    hclog.NewNullLogger(),
	}
}
