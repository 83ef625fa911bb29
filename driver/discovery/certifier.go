// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/possession"
)

// Certifier makes this agent's certificates from its workload identity, each with a new key
// and a new proof. Use NewCertifier.
type Certifier struct {
	read func() (string, error)
	keys *Keys
	now  func() time.Time

	mu    sync.Mutex
	token string           // cert was made from it
	cert  *tls.Certificate // nil before the first
	renew time.Time        // when cert is to be replaced
}

// NewCertifier returns a certifier for the identity in token. It reads the token again for
// each certificate, and makes no certificate yet.
func NewCertifier(token nomadapi.Token, keys *Keys) *Certifier {
	return &Certifier{read: token.Read, keys: keys, now: time.Now}
}

// Certificate returns a certificate with at least half of its life left, made from the
// newest identity. A new one is valid for thirteen minutes, or until the identity expires.
// If no new certificate can be made, Certificate returns the previous one until it expires.
func (c *Certifier) Certificate(ctx context.Context) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	token, err := c.read()
	if err == nil {
		if c.cert != nil && token == c.token && now.Before(c.renew) {
			return c.cert, nil
		}
		var cert *tls.Certificate
		if cert, err = c.make(ctx, token, now); err == nil {
			c.cert, c.token = cert, token
			c.renew = now.Add(cert.Leaf.NotAfter.Sub(now) / 2)
			return cert, nil
		}
	}
	if c.cert != nil && now.Before(c.cert.Leaf.NotAfter) {
		return c.cert, nil
	}
	return nil, err
}

func (c *Certifier) make(ctx context.Context, token string, now time.Time) (*tls.Certificate, error) {
	tok, err := jwt.ParseSigned(token, signatures)
	if err != nil || len(tok.Headers) != 1 {
		// Leave out the parser's error: it may quote the token.
		return nil, fmt.Errorf("%w: what Nomad gave this task is no signed token", ErrInvalid)
	}
	var identity claims
	if err := tok.UnsafeClaimsWithoutVerification(&identity); err != nil {
		return nil, fmt.Errorf("%w: the claims of this task's identity: %w", ErrInvalid, err)
	}
	notBefore := now.Add(-startLeeway) // peers' clocks may be behind
	notAfter := notBefore.Add(certificateLife)
	if identity.Expiry != nil && identity.Expiry.Time().Before(notAfter) {
		notAfter = identity.Expiry.Time()
	}
	if now.After(notAfter.Add(clockLeeway)) {
		return nil, fmt.Errorf("%w: this task's identity expired at %s, and Nomad has not renewed it", ErrInvalid, notAfter)
	}
	if tok.Headers[0].Algorithm == string(jose.EdDSA) {
		return nil, errOldKey
	}
	key, err := c.keys.signer(ctx, tok.Headers[0])
	if err != nil {
		return nil, err
	}
	notBefore, notAfter = notBefore.Truncate(time.Second), notAfter.Truncate(time.Second)
	cert, err := newCertificate(notBefore, notAfter, func(binding []byte) (possession.Proof, error) {
		return possession.Prove(token, key.public, binding)
	})
	if err != nil {
		return nil, fmt.Errorf("prove this task's identity: %w", err)
	}
	return cert, nil
}

// signatures are the algorithms that Nomad signs with. Only root keys from before Nomad 1.7
// use EdDSA; their tokens are parsed, then refused with errOldKey.
var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA}

// errOldKey is returned if Nomad has signed this task's identity with EdDSA.
var errOldKey = fmt.Errorf("%w: a root key from before Nomad 1.7 (EdDSA) has signed this task's identity, and agents accept RS256 alone: "+
	"run `nomad operator root keyring rotate`, then `nomad alloc stop` for this allocation, so that its successor has a new identity", ErrInvalid)

// signingKey is a key that Nomad signs with.
type signingKey struct {
	jose.JSONWebKey
	public *rsa.PublicKey
}

// signer returns the key that Nomad signed the token with, according to the token's header.
func (k *Keys) signer(ctx context.Context, h jose.Header) (signingKey, error) {
	if h.KeyID == "" {
		return signingKey{}, fmt.Errorf("%w: it does not name the key that signed it", ErrInvalid)
	}
	key, err := k.Get(ctx, h.KeyID)
	if err != nil {
		return signingKey{}, err
	}
	public, ok := key.Key.(*rsa.PublicKey)
	const want = string(jose.RS256)
	if !ok || h.Algorithm != want || key.Algorithm != "" && key.Algorithm != want {
		return signingKey{}, fmt.Errorf("%w: key %s signs with %q, and the identity names %q; want %s for both", ErrInvalid, h.KeyID, key.Algorithm, h.Algorithm, want)
	}
	return signingKey{key, public}, nil
}
