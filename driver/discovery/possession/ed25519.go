// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"

	"filippo.io/edwards25519"
)

const (
	// elementSize is that of a point and of a scalar.
	elementSize = 32
	// schnorrSize is that of a proof: R, the commitment, the answer.
	schnorrSize = 3 * elementSize
)

// publicPoint returns the P = R + k·A whose discrete logarithm is the S of the
// signature (R, S) of the message.
func publicPoint(key ed25519.PublicKey, r []byte, message string) (*edwards25519.Point, error) {
	if len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("the Ed25519 key has %d bytes, want %d", len(key), ed25519.PublicKeySize)
	}
	a, err := point(key)
	if err != nil {
		return nil, fmt.Errorf("Ed25519 key: %w", err)
	}
	commitment, err := point(r)
	if err != nil {
		return nil, fmt.Errorf("%w: R: %w", ErrInvalid, err)
	}
	h := sha512.New()
	h.Write(r)
	h.Write(key)
	h.Write([]byte(message))
	k, err := edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("hash of the message: %w", err)
	}
	p := edwards25519.NewIdentityPoint().ScalarMult(k, a)
	p.Add(p, commitment)
	if smallOrder(p) {
		return nil, fmt.Errorf("%w: R is chosen so that nothing is to be known", ErrInvalid)
	}
	return p, nil
}

// point reads the canonical encoding of a point that is not of small order.
func point(b []byte) (*edwards25519.Point, error) {
	p, err := edwards25519.NewIdentityPoint().SetBytes(b)
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(p.Bytes(), b):
		return nil, errors.New("the point's encoding is not canonical")
	case smallOrder(p):
		return nil, errors.New("the point is of small order")
	}
	return p, nil
}

func smallOrder(p *edwards25519.Point) bool {
	return edwards25519.NewIdentityPoint().MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1
}

// schnorrChallenge hashes what was fixed before it.
func schnorrChallenge(key ed25519.PublicKey, message string, context, r, commitment []byte) (*edwards25519.Scalar, error) {
	t := newTranscript(sha512.New(), domainEd25519, key, context, []byte(message), r, commitment)
	return edwards25519.NewScalar().SetUniformBytes(t.Sum(nil))
}

// proveEd25519 returns R, the commitment and the answer.
func proveEd25519(random io.Reader, message string, signature []byte, key ed25519.PublicKey, context []byte) ([]byte, error) {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(message), signature) {
		return nil, errors.New("the token is not signed by this Ed25519 key")
	}
	r := signature[:elementSize]
	s, err := edwards25519.NewScalar().SetCanonicalBytes(signature[elementSize:])
	if err != nil {
		return nil, errors.New("the token's signature is not canonical")
	}
	if _, err := publicPoint(key, r, message); err != nil {
		return nil, err
	}
	var seed [64]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("random numbers: %w", err)
	}
	secret, err := edwards25519.NewScalar().SetUniformBytes(seed[:])
	if err != nil {
		return nil, err
	}
	commitment := edwards25519.NewIdentityPoint().ScalarBaseMult(secret).Bytes()
	c, err := schnorrChallenge(key, message, context, r, commitment)
	if err != nil {
		return nil, err
	}
	answer := edwards25519.NewScalar().MultiplyAdd(c, s, secret)
	return bytes.Join([][]byte{r, commitment, answer.Bytes()}, nil), nil
}

// verifyEd25519 checks a proof of proveEd25519: answer·B = commitment + c·P.
func verifyEd25519(p Proof, key ed25519.PublicKey, context []byte) error {
	if len(p.Body) != schnorrSize {
		return fmt.Errorf("%w: it has %d bytes, want %d", ErrInvalid, len(p.Body), schnorrSize)
	}
	r, commitment, answer := p.Body[:elementSize], p.Body[elementSize:2*elementSize], p.Body[2*elementSize:]
	public, err := publicPoint(key, r, p.Message)
	if err != nil {
		return err
	}
	z, err := edwards25519.NewScalar().SetCanonicalBytes(answer)
	if err != nil {
		return fmt.Errorf("%w: the answer is not below the group's order", ErrInvalid)
	}
	c, err := schnorrChallenge(key, p.Message, context, r, commitment)
	if err != nil {
		return err
	}
	minus := edwards25519.NewIdentityPoint().Negate(public)
	got := edwards25519.NewIdentityPoint().VarTimeDoubleScalarBaseMult(c, minus, z)
	if !bytes.Equal(got.Bytes(), commitment) {
		return fmt.Errorf("%w: it was not made for these claims, this key and this context", ErrInvalid)
	}
	return nil
}
