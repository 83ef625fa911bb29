// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/possession"
)

// proofsKept bounds how many good proofs are remembered.
const proofsKept = 1024

// hashOfKeys distinguishes keys of Nomad.
const hashOfKeys = crypto.SHA256

// proofs verifies proofs, those of callers one at a time: anyone who reaches the
// port can make an agent verify one, which takes milliseconds. Those of peers that
// the agent itself calls have a turn of their own, which callers cannot delay. Good
// ones are remembered, so that peers that connect again do not wait behind bad
// ones.
type proofs struct {
	callers, called turn

	mu   sync.Mutex
	good map[[sha256.Size]byte]time.Time // hash of a certificate and Nomad's key → when it expires
}

func newProofs() *proofs {
	return &proofs{callers: make(turn, 1), called: make(turn, 1), good: make(map[[sha256.Size]byte]time.Time)}
}

// turn is held by the one whose proof is being verified.
type turn chan struct{}

// check returns nil when the certificate's proof holds for it.
func (p *proofs) check(ctx context.Context, t turn, cert *x509.Certificate, key signingKey, proof possession.Proof, now time.Time) error {
	thumbprint, err := key.Thumbprint(hashOfKeys)
	if err != nil {
		return fmt.Errorf("nomad's key %s: %w", key.KeyID, err)
	}
	id := sha256.Sum256(append(thumbprint, cert.Raw...))
	if p.known(id) {
		return nil
	}
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return fmt.Errorf("waiting to verify a proof: %w", ctx.Err())
	}
	if err := proof.Verify(key.public, binding(cert.RawSubjectPublicKeyInfo, cert.NotBefore, cert.NotAfter)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p.remember(id, cert.NotAfter, now)
	return nil
}

func (p *proofs) known(id [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.good[id]
	return ok
}

// remember keeps a good proof, and drops those of certificates that have
// expired. Only members of the job get here; a job larger than the limit has some
// proofs verified again.
func (p *proofs) remember(id [sha256.Size]byte, until, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.good) >= proofsKept {
		for other, t := range p.good {
			if now.After(t.Add(clockLeeway)) {
				delete(p.good, other)
			}
		}
	}
	if len(p.good) < proofsKept {
		p.good[id] = until
	}
}
