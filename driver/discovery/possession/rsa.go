// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"

	"filippo.io/bigmod"
)

const (
	// exponent is the only public exponent accepted. It is a prime above every
	// challenge.
	exponent = 65537
	// challengeSize is the size of one round's challenge in bytes, and rounds the
	// number of challenges in a SHA-256 hash.
	challengeSize = 2
	rounds        = sha256.Size / challengeSize
	// minBits and maxBits bound the modulus. The upper bound limits the cost of a
	// proof.
	minBits, maxBits = 2048, 8192
)

// group does the arithmetic of RSA signatures of one message.
type group struct {
	modulus *bigmod.Modulus
	encoded []byte      // n
	x       *bigmod.Nat // the padded hash of the message
}

// newGroup checks the key.
func newGroup(key *rsa.PublicKey, message string) (*group, error) {
	switch {
	case key == nil || key.N == nil || key.N.Sign() <= 0 || key.N.Bit(0) == 0:
		return nil, errors.New("RSA key: the modulus must be a positive odd number")
	case key.N.BitLen() < minBits || key.N.BitLen() > maxBits:
		return nil, fmt.Errorf("RSA key: the modulus has %d bits, want %d to %d", key.N.BitLen(), minBits, maxBits)
	case key.E != exponent:
		return nil, fmt.Errorf("RSA key: the public exponent is %d, want %d", key.E, exponent)
	}
	g := &group{encoded: key.N.Bytes()}
	var err error
	if g.modulus, err = bigmod.NewModulus(g.encoded); err != nil {
		return nil, fmt.Errorf("RSA key: %w", err)
	}
	if g.x, err = bigmod.NewNat().SetBytes(pad(message, g.modulus.Size()), g.modulus); err != nil {
		return nil, fmt.Errorf("RSA key: %w", err)
	}
	return g, nil
}

// sha256Prefix begins the DER encoding of a SHA-256 DigestInfo (RFC 8017, 9.2).
var sha256Prefix = []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}

// pad returns the EMSA-PKCS1-v1_5 encoding with SHA-256, in size bytes.
func pad(message string, size int) []byte {
	digest := sha256.Sum256([]byte(message))
	tail := append(append([]byte{0}, sha256Prefix...), digest[:]...)
	out := append([]byte{0, 1}, bytes.Repeat([]byte{0xff}, size-2-len(tail))...)
	return append(out, tail...)
}

// challenges hashes everything that was fixed before the challenges.
func (g *group) challenges(message string, context []byte, commitments []*bigmod.Nat) [sha256.Size]byte {
	t := newTranscript(sha256.New(), domainRSA, g.encoded, context, []byte(message))
	for _, c := range commitments {
		t.add(c.Bytes(g.modulus))
	}
	return [sha256.Size]byte(t.Sum(nil))
}

// proveRSA returns the challenges and an answer for each. Computations with the
// signature or the random numbers take constant time.
func proveRSA(random io.Reader, message string, signature []byte, key *rsa.PublicKey, context []byte) ([]byte, error) {
	g, err := newGroup(key, message)
	if err != nil {
		return nil, err
	}
	s, err := bigmod.NewNat().SetBytes(signature, g.modulus)
	if err != nil || len(signature) != g.modulus.Size() {
		return nil, errors.New("the token's signature is not one of this RSA key")
	}
	if g.power(s).Equal(g.x) != 1 {
		return nil, errors.New("the token is not signed by this RSA key")
	}
	secrets, commitments := make([]*bigmod.Nat, rounds), make([]*bigmod.Nat, rounds)
	for i := range rounds {
		if secrets[i], err = g.random(random); err != nil {
			return nil, err
		}
		commitments[i] = g.power(secrets[i])
	}
	challenges := g.challenges(message, context, commitments)
	body := challenges[:]
	for i, r := range secrets {
		c := challenges[i*challengeSize : (i+1)*challengeSize]
		z := bigmod.NewNat().Exp(s, c, g.modulus)
		body = append(body, z.Mul(r, g.modulus).Bytes(g.modulus)...)
	}
	return body, nil
}

// verifyRSA checks a proof of proveRSA. It computes with public values only.
func verifyRSA(p Proof, key *rsa.PublicKey, context []byte) error {
	g, err := newGroup(key, p.Message)
	if err != nil {
		return err
	}
	size := g.modulus.Size()
	if want := sha256.Size + rounds*size; len(p.Body) != want {
		return fmt.Errorf("%w: it has %d bytes, want %d for %d rounds", ErrInvalid, len(p.Body), want, rounds)
	}
	inverse, err := g.inverse(g.x)
	if err != nil {
		return fmt.Errorf("%w: the message has no inverse", ErrInvalid)
	}
	challenges, answers := p.Body[:sha256.Size], p.Body[sha256.Size:]
	product, _ := bigmod.NewNat().SetBytes([]byte{1}, g.modulus) // 1 is below the modulus
	commitments := make([]*bigmod.Nat, rounds)
	for i := range rounds {
		z, err := bigmod.NewNat().SetBytes(answers[i*size:(i+1)*size], g.modulus)
		if err != nil {
			return fmt.Errorf("%w: answer %d is not below the modulus", ErrInvalid, i)
		}
		product.Mul(z, g.modulus)
		commitments[i] = g.power(z)
		if c := binary.BigEndian.Uint16(challenges[i*challengeSize:]); c > 0 {
			commitments[i].Mul(bigmod.NewNat().ExpShortVarTime(inverse, uint(c), g.modulus), g.modulus)
		}
	}
	// The product is a unit if and only if each answer is.
	if _, err := g.inverse(product); err != nil {
		return fmt.Errorf("%w: an answer has no inverse", ErrInvalid)
	}
	want := g.challenges(p.Message, context, commitments)
	if subtle.ConstantTimeCompare(want[:], challenges) != 1 {
		return fmt.Errorf("%w: it was not made for these claims, this key and this context", ErrInvalid)
	}
	return nil
}

// inverse returns 1/y. It uses package math/big, whose running time depends on y: y
// is public here, and bigmod would take twenty times as long.
func (g *group) inverse(y *bigmod.Nat) (*bigmod.Nat, error) {
	n := new(big.Int).SetBytes(g.encoded)
	inverse := new(big.Int).ModInverse(new(big.Int).SetBytes(y.Bytes(g.modulus)), n)
	if inverse == nil {
		return nil, errors.New("it has a factor in common with the modulus")
	}
	return bigmod.NewNat().SetBytes(inverse.Bytes(), g.modulus)
}

// power returns y to the public exponent.
func (g *group) power(y *bigmod.Nat) *bigmod.Nat {
	return bigmod.NewNat().ExpShortVarTime(y, exponent, g.modulus)
}

// random returns a uniformly random number from 1 to n-1.
func (g *group) random(random io.Reader) (*bigmod.Nat, error) {
	b := make([]byte, g.modulus.Size())
	for {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, fmt.Errorf("random numbers: %w", err)
		}
		b[0] &= 0xff >> (8*g.modulus.Size() - g.modulus.BitLen())
		r, err := bigmod.NewNat().SetBytes(b, g.modulus)
		if err == nil && r.IsZero() == 0 {
			return r, nil
		}
	}
}
