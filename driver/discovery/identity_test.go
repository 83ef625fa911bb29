// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/possession"
)

var testNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// issuer signs as Nomad does.
type issuer struct {
	kid string
	alg jose.SignatureAlgorithm
	key any
	pub any
}

func newRSA(t testing.TB, kid string) issuer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.NoError(t, err)
	return issuer{kid, jose.RS256, key, key.Public()}
}

func newEd25519(t testing.TB, kid string) issuer {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	must.NoError(t, err)
	return issuer{kid, jose.EdDSA, key, pub}
}

func (i issuer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.pub, KeyID: i.kid, Algorithm: string(i.alg), Use: "sig"}
}

func (i issuer) sign(t testing.TB, c any) string {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if i.kid != "" {
		opts = opts.WithHeader("kid", i.kid)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: i.alg, Key: i.key}, opts)
	must.NoError(t, err)
	out, err := jwt.Signed(s).Claims(c).Serialize()
	must.NoError(t, err)
	return out
}

// nomadClaims returns the claims of a task of the job "train" in namespace "ml".
func nomadClaims(change ...func(*claims)) claims {
	c := claims{
		Claims: jwt.Claims{
			Subject:   "global:ml:train:workers:worker:kolo",
			Audience:  jwt.Audience{"kolo"},
			Expiry:    jwt.NewNumericDate(testNow.Add(time.Hour)),
			NotBefore: jwt.NewNumericDate(testNow.Add(-time.Minute)),
			IssuedAt:  jwt.NewNumericDate(testNow.Add(-time.Minute)),
		},
		Namespace: "ml", JobID: "train", AllocID: "aa11", Task: "worker",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// fakeKeys serves keys and counts the requests.
type fakeKeys struct {
	mu    sync.Mutex
	now   time.Time
	keys  []jose.JSONWebKey
	err   error
	asked int
}

func (f *fakeKeys) fetch(context.Context) (jose.JSONWebKeySet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return jose.JSONWebKeySet{Keys: f.keys}, f.err
}

func (f *fakeKeys) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeKeys) set(change func(*fakeKeys)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func newFakeKeys(keys ...issuer) *fakeKeys {
	f := &fakeKeys{now: testNow}
	for _, k := range keys {
		f.keys = append(f.keys, k.jwk())
	}
	return f
}

func (f *fakeKeys) verifier() *Verifier {
	v := NewVerifier(VerifierOptions{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", Keys: &Keys{fetch: f.fetch, now: f.clock}})
	v.now = f.clock
	return v
}

// certify makes a certificate from a token, with a valid proof if the key has
// signed it, and otherwise a worthless one.
func certify(t testing.TB, token string, key any, notBefore time.Time, life time.Duration) *x509.Certificate {
	cert, err := newCertificate(notBefore, notBefore.Add(life), func(binding []byte) (possession.Proof, error) {
		public, _ := key.(*rsa.PublicKey)
		p, err := possession.Proof{}, errors.New("no RSA key")
		if public != nil {
			p, err = possession.Prove(token, public, binding)
		}
		if err != nil {
			p = possession.Proof{Message: token[:max(0, strings.LastIndex(token, "."))], Body: make([]byte, 32+16*256)}
		}
		return p, nil
	})
	must.NoError(t, err)
	return cert.Leaf
}

func TestVerifier(t *testing.T) {
	rs, ed := newRSA(t, "rsa"), newEd25519(t, "ed")
	stranger := newRSA(t, "rsa") // the same key ID, another key
	unknown := newRSA(t, "unknown")
	keys := newFakeKeys(rs, ed)
	der, err := x509.MarshalPKIXPublicKey(rs.pub)
	must.NoError(t, err)
	pub := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"rsa"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{"nomad_job_id":"train"}`)) + "."

	cases := map[string]struct {
		token string
		by    any    // key that the proof is made for, Nomad's when nil
		job   string // the verifier's, "train" when empty
		want  Identity
		err   error
	}{
		"rsa": {
			token: rs.sign(t, nomadClaims()),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11", Expires: testNow.Add(time.Hour)},
		},
		"signed by a root key from before Nomad 1.7": {token: ed.sign(t, nomadClaims()), by: ed.pub, err: ErrInvalid},
		"default identity without expiry": {
			token: rs.sign(t, nomadClaims(func(c *claims) {
				c.Audience, c.Expiry, c.Subject = jwt.Audience{"nomadproject.io"}, nil, "global:ml:train:workers:worker:default"
			})),
			want: Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11"},
		},
		"colons in the job": {
			job: "a:b",
			token: rs.sign(t, nomadClaims(func(c *claims) {
				c.JobID, c.Subject, c.Expiry = "a:b", "global:ml:a:b:g:h:worker:kolo", nil
			})),
			want: Identity{Namespace: "ml", JobID: "a:b", Group: "g:h", Task: "worker", AllocID: "aa11"},
		},
		"dispatched job": {
			job:   "train/dispatch-1733-ab",
			token: rs.sign(t, nomadClaims(func(c *claims) { c.Expiry = nil })),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11"},
		},
		"within leeway": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.Expiry = jwt.NewNumericDate(testNow.Add(-20 * time.Second)) })),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11", Expires: testNow.Add(-20 * time.Second)},
		},
		"expired": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.Expiry = jwt.NewNumericDate(testNow.Add(-time.Minute)) })),
			err:   ErrInvalid,
		},
		"not valid yet": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.NotBefore = jwt.NewNumericDate(testNow.Add(3 * time.Minute)) })),
			err:   ErrInvalid,
		},
		"issued in the future": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.IssuedAt = jwt.NewNumericDate(testNow.Add(3 * time.Minute)) })),
			err:   ErrInvalid,
		},
		"wrong job":       {token: rs.sign(t, nomadClaims(func(c *claims) { c.JobID = "other" })), err: ErrOtherJob},
		"no job":          {token: rs.sign(t, nomadClaims(func(c *claims) { c.JobID = "" })), err: ErrOtherJob},
		"prefix of a job": {token: rs.sign(t, nomadClaims(func(c *claims) { c.JobID = "trai" })), err: ErrOtherJob},
		"wrong namespace": {token: rs.sign(t, nomadClaims(func(c *claims) { c.Namespace = "default" })), err: ErrOtherJob},
		"for vault":       {token: rs.sign(t, nomadClaims(func(c *claims) { c.Audience = jwt.Audience{"vault.io"} })), err: ErrInvalid},
		"no audience":     {token: rs.sign(t, nomadClaims(func(c *claims) { c.Audience = nil })), err: ErrInvalid},
		"no allocation":   {token: rs.sign(t, nomadClaims(func(c *claims) { c.AllocID = "" })), err: ErrInvalid},
		"none at all":     {token: "", err: ErrInvalid},
		"rubbish":         {token: "a.b.c", err: ErrInvalid},
		"alg none":        {token: none, err: ErrInvalid},
		"hs256 signed with the public key": {
			token: issuer{"rsa", jose.HS256, pub, nil}.sign(t, nomadClaims()), err: ErrInvalid,
		},
		"another algorithm of the same key": {
			token: issuer{"rsa", jose.PS256, rs.key, nil}.sign(t, nomadClaims()), err: ErrInvalid,
		},
		"signed by a stranger":     {token: stranger.sign(t, nomadClaims()), by: stranger.pub, err: ErrInvalid},
		"unknown key":              {token: unknown.sign(t, nomadClaims()), by: unknown.pub, err: ErrInvalid},
		"a sidecar's":              {token: rs.sign(t, nomadClaims(func(c *claims) { c.Task, c.Subject = "log", "global:ml:train:workers:log:kolo" })), err: ErrOtherTask},
		"a sidecar's, of no group": {token: rs.sign(t, nomadClaims(func(c *claims) { c.Task, c.Subject = "log", "" })), err: ErrOtherTask},
		"a service's":              {token: rs.sign(t, nomadClaims(func(c *claims) { c.Task = "" })), err: ErrOtherTask},
		"of another group": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.Task, c.Subject = "train", "global:ml:train:rack2:train:kolo" })),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "rack2", Task: "train", AllocID: "aa11", Expires: testNow.Add(time.Hour)},
		},
		"without the signature": {token: noSignature(rs.sign(t, nomadClaims())), err: ErrInvalid},
		"key of another kind":   {token: issuer{"rsa", jose.EdDSA, ed.key, nil}.sign(t, nomadClaims()), err: ErrInvalid},
		"no key ID":             {token: issuer{"", jose.RS256, rs.key, nil}.sign(t, nomadClaims()), err: ErrInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := keys.verifier()
			if tc.job != "" {
				v.o.JobID = tc.job
			}
			by := tc.by
			if by == nil {
				by = rs.pub
			}
			got, err := v.Verify(t.Context(), certify(t, tc.token, by, testNow, time.Minute))
			if tc.err != nil {
				must.ErrorIs(t, err, tc.err)
				return
			}
			must.NoError(t, err)
			must.True(t, tc.want.Expires.Equal(got.Expires))
			must.True(t, got.Issued.Equal(testNow.Add(-time.Minute)))
			must.False(t, got.Until.After(testNow.Add(time.Minute)))
			got.Expires, got.Issued, got.Until = tc.want.Expires, time.Time{}, time.Time{}
			must.Eq(t, tc.want, got)
		})
	}
}

func TestKeys_rotation(t *testing.T) {
	old, fresh, forged := newRSA(t, "old"), newRSA(t, "new"), newRSA(t, "forged")
	f := newFakeKeys(old)
	v := f.verifier()
	check := func(i issuer) error {
		_, err := v.Verify(t.Context(), certify(t, i.sign(t, nomadClaims()), i.pub, f.clock(), time.Minute))
		return err
	}
	must.NoError(t, check(old))
	must.NoError(t, check(old))
	must.Eq(t, 1, f.asked)

	// A new key appears: asked for once it is seen, and the old one stays good.
	f.set(func(f *fakeKeys) {
		f.now = f.now.Add(time.Minute)
		f.keys = append(f.keys, fresh.jwk())
	})
	must.NoError(t, check(fresh))
	must.NoError(t, check(old))
	must.Eq(t, 2, f.asked)

	// No one can make the agent ask for each forged token.
	for range 50 {
		must.ErrorIs(t, check(forged), ErrInvalid)
	}
	must.Eq(t, 2, f.asked)

	// Nomad is unreachable: known keys remain valid, even old ones. Other keys
	// cannot be judged.
	away := errors.New("connection refused")
	f.set(func(f *fakeKeys) {
		f.now, f.err = f.now.Add(20*time.Minute), away
	})
	must.NoError(t, check(old))
	f.set(func(f *fakeKeys) { f.now = f.now.Add(time.Minute) })
	must.ErrorIs(t, check(newRSA(t, "newer")), away)

	// Nomad is back, without the old key.
	f.set(func(f *fakeKeys) {
		f.now, f.err, f.keys = f.now.Add(time.Minute), nil, f.keys[1:]
	})
	must.ErrorIs(t, check(newRSA(t, "newest")), ErrInvalid) // asks
	must.NoError(t, check(fresh))
	must.ErrorIs(t, check(old), ErrInvalid)
}

// noSignature returns what a peer sees of a token.
func noSignature(token string) string { return token[:strings.LastIndex(token, ".")] + "." }
