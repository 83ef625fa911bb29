// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

func TestCertifier(t *testing.T) {
	key := newRSA(t, "rsa")
	keys := newFakeKeys(key)
	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	c := NewCertifier(nomadapi.Token{File: file}, &Keys{fetch: keys.fetch, now: keys.clock})
	c.now = keys.clock
	write := func(token string) { must.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600)) }
	later := func(d time.Duration) { keys.set(func(f *fakeKeys) { f.now = f.now.Add(d) }) }
	make := func() *tls.Certificate {
		cert, err := c.Certificate(t.Context())
		must.NoError(t, err)
		return cert
	}
	_, err := c.Certificate(t.Context())
	must.ErrorContains(t, err, "identity { env = true file = true }")
	write("rubbish")
	_, err = c.Certificate(t.Context())
	must.ErrorIs(t, err, ErrInvalid)
	must.StrNotContains(t, err.Error(), "rubbish")

	write(key.sign(t, nomadClaims()))
	first := make()
	must.True(t, first.Leaf.NotAfter.Equal(testNow.Add(certificateLife-startLeeway)))
	must.True(t, first == make(), must.Sprint("kept"))
	later(certificateLife/2 + time.Second)
	second := make()
	must.True(t, second != first, must.Sprint("half of it is over"))
	write(key.sign(t, nomadClaims(func(c *claims) { c.ID = "new" })))
	third := make()
	must.True(t, third != second, must.Sprint("the identity is another"))

	// The existing certificate is used as long as it is valid.
	must.NoError(t, os.Remove(file))
	must.True(t, third == make())
	write("")
	must.True(t, third == make())
	later(certificateLife)
	_, err = c.Certificate(t.Context())
	must.ErrorIs(t, err, nomadapi.ErrNoIdentity)

	// A certificate is never valid for longer than the identity.
	end := keys.clock().Add(time.Minute)
	write(key.sign(t, nomadClaims(func(c *claims) { c.Expiry = numericDate(end) })))
	must.True(t, make().Leaf.NotAfter.Equal(end))
	later(2 * time.Minute)
	_, err = c.Certificate(t.Context())
	must.ErrorContains(t, err, "Nomad has not renewed it")

	keys.set(func(f *fakeKeys) { f.err = errors.New("away") })
	write(newRSA(t, "unknown").sign(t, nomadClaims(func(c *claims) { c.Expiry = nil })))
	_, err = c.Certificate(t.Context())
	must.Error(t, err)

	write(newEd25519(t, "old").sign(t, nomadClaims(func(c *claims) { c.Expiry = nil })))
	_, err = c.Certificate(t.Context())
	must.ErrorIs(t, err, ErrInvalid)
	must.ErrorContains(t, err, "nomad operator root keyring rotate")
}
