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

// proofsKept bounds the number of valid proofs remembered.
const proofsKept = 1024

// hashOfKeys is the hash by which Nomad's keys are told apart.
const hashOfKeys = crypto.SHA256

// proofs verifies proofs. It verifies those of callers one at a time, because
// anyone who reaches the port can make an agent spend the milliseconds that a proof
// takes. Proofs of peers that the agent itself calls have a queue of their own,
// which callers cannot delay. Valid proofs are remembered, so that peers that
// connect again do not queue behind invalid ones.
type proofs struct {
	callers, called turn

	mu   sync.Mutex
	good map[[sha256.Size]byte]time.Time // hash of a certificate and Nomad's key → when it expires
}

func newProofs() *proofs {
	return &proofs{callers: make(turn, 1), called: make(turn, 1), good: make(map[[sha256.Size]byte]time.Time)}
}

// turn is held by the caller whose proof is being verified.
type turn chan struct{}

// check returns nil if the proof holds for the certificate.
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

// remember keeps a valid proof, and drops those whose certificates have expired.
// Only members of the job get this far; in a job larger than the limit some proofs
// are verified again.
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
