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
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/shoenig/test/must"
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

// nomadClaims are those of a task of the job "train" in namespace "ml".
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

// fakeKeys serves keys and counts the questions.
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
	return &Verifier{Namespace: "ml", JobID: "train", Keys: newKeys(f.fetch, f.clock), Now: f.clock}
}

func TestVerifier(t *testing.T) {
	rs, ed := newRSA(t, "rsa"), newEd25519(t, "ed")
	stranger := newRSA(t, "rsa") // the same key ID, another key
	keys := newFakeKeys(rs, ed)
	der, err := x509.MarshalPKIXPublicKey(rs.pub)
	must.NoError(t, err)
	pub := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"rsa"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{"nomad_job_id":"train"}`)) + "."

	cases := map[string]struct {
		token string
		job   string // the verifier's, "train" when empty
		want  Identity
		err   error
	}{
		"rsa": {
			token: rs.sign(t, nomadClaims()),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11", Expires: testNow.Add(time.Hour)},
		},
		"ed25519": {
			token: ed.sign(t, nomadClaims()),
			want:  Identity{Namespace: "ml", JobID: "train", Group: "workers", Task: "worker", AllocID: "aa11", Expires: testNow.Add(time.Hour)},
		},
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
			token: rs.sign(t, nomadClaims(func(c *claims) { c.NotBefore = jwt.NewNumericDate(testNow.Add(time.Minute)) })),
			err:   ErrInvalid,
		},
		"issued in the future": {
			token: rs.sign(t, nomadClaims(func(c *claims) { c.IssuedAt = jwt.NewNumericDate(testNow.Add(time.Minute)) })),
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
		"signed by a stranger": {token: stranger.sign(t, nomadClaims()), err: ErrInvalid},
		"unknown key":          {token: newEd25519(t, "unknown").sign(t, nomadClaims()), err: ErrInvalid},
		"key of another kind":  {token: issuer{"rsa", jose.EdDSA, ed.key, nil}.sign(t, nomadClaims()), err: ErrInvalid},
		"no key ID":            {token: issuer{"", jose.RS256, rs.key, nil}.sign(t, nomadClaims()), err: ErrInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := keys.verifier()
			if tc.job != "" {
				v.JobID = tc.job
			}
			got, err := v.Authenticate(t.Context(), tc.token)
			if tc.err != nil {
				must.ErrorIs(t, err, tc.err)
				return
			}
			must.NoError(t, err)
			must.True(t, tc.want.Expires.Equal(got.Expires))
			got.Expires = tc.want.Expires
			must.Eq(t, tc.want, got)
		})
	}
}

func TestKeys_rotation(t *testing.T) {
	old, fresh := newEd25519(t, "old"), newEd25519(t, "new")
	f := newFakeKeys(old)
	v := f.verifier()
	check := func(i issuer) error {
		_, err := v.Authenticate(t.Context(), i.sign(t, nomadClaims()))
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

	// Nobody can make the agent ask for each forged token.
	for range 50 {
		must.ErrorIs(t, check(newEd25519(t, "forged")), ErrInvalid)
	}
	must.Eq(t, 2, f.asked)

	// Nomad is away: known keys stay good, even old ones; others cannot be judged.
	away := errors.New("connection refused")
	f.set(func(f *fakeKeys) {
		f.now, f.err = f.now.Add(20*time.Minute), away
	})
	must.NoError(t, check(old))
	f.set(func(f *fakeKeys) { f.now = f.now.Add(time.Minute) })
	must.ErrorIs(t, check(newEd25519(t, "newer")), away)

	// Nomad is back, without the old key.
	f.set(func(f *fakeKeys) {
		f.now, f.err, f.keys = f.now.Add(time.Minute), nil, f.keys[1:]
	})
	must.ErrorIs(t, check(newEd25519(t, "newest")), ErrInvalid) // asks
	must.NoError(t, check(fresh))
	must.ErrorIs(t, check(old), ErrInvalid)
}

func FuzzVerifier(f *testing.F) {
	key := newEd25519(f, "ed")
	v := newFakeKeys(key).verifier()
	good := key.sign(f, nomadClaims())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		id, err := v.Authenticate(t.Context(), token)
		if err == nil && (id.JobID != "train" || token[:20] != good[:20]) {
			t.Fatalf("%q was believed to be %+v", token, id)
		}
	})
}
