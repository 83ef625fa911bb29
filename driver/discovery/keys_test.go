// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

func TestNewKeys(t *testing.T) {
	key := newRSA(t, "rsa")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		must.Eq(t, "/v1/.well-known/jwks.json", "/v1"+strings.TrimPrefix(r.URL.Path, "/v1"))
		must.Eq(t, "secret", r.Header.Get("X-Nomad-Token"))
		must.NoError(t, json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.jwk()}}))
	}))
	t.Cleanup(server.Close)
	t.Setenv("KOLO_TEST_GOOD", "secret")
	keys, err := NewKeys(server.URL, nomadapi.Token{Env: "KOLO_TEST_GOOD"})
	must.NoError(t, err)
	v := newFakeKeys().verifier()
	v.o.Keys = keys
	cert := certify(t, key.sign(t, nomadClaims()), key.pub, testNow, time.Minute)
	_, err = v.Verify(t.Context(), cert)
	must.NoError(t, err)

	keys, err = NewKeys("unix:///nowhere/api.sock", nomadapi.Token{Env: "KOLO_TEST_GOOD"})
	must.NoError(t, err)
	v = newFakeKeys().verifier()
	v.o.Keys = keys
	_, err = v.Verify(t.Context(), cert)
	must.ErrorIs(t, err, nomadapi.ErrUnreachable)
}
