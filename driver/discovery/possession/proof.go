// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxSize bounds an encoded proof, including the token's header and claims.
const MaxSize = 24 << 10

// maxMessage bounds the header and claims. Nomad's have some 700 bytes; a server's
// configuration may add claims.
const maxMessage = 8 << 10

// ErrInvalid means that a proof is refused.
var ErrInvalid = errors.New("invalid proof of a signature")

// Proof shows that its maker knows a signature.
type Proof struct {
	// Message is the signed text: a token's header and claims, "xxx.yyy".
	Message string
	// Body is the proof itself.
	Body []byte
}

// encoded is a Proof as ASN.1, in DER.
type encoded struct {
	Version       int
	Message, Body []byte
}

// version is the version of the encoding and of the proofs.
const version = 1

// Prove proves knowledge of a token's signature. The token is in compact form
// ("header.claims.signature"), signed with RS256 by the owner of the key. The proof
// holds only in the given context. The error never contains the signature.
func Prove(token string, key *rsa.PublicKey, context []byte) (Proof, error) {
	return prove(rand.Reader, token, key, context)
}

func prove(random io.Reader, token string, key *rsa.PublicKey, context []byte) (Proof, error) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return Proof{}, errors.New("want header.claims.signature")
	}
	message := token[:i]
	if err := checkMessage(message); err != nil {
		return Proof{}, err
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(token[i+1:])
	if err != nil {
		return Proof{}, errors.New("the token's signature is not base64url")
	}
	body, err := proveRSA(random, message, signature, key, context)
	if err != nil {
		return Proof{}, err
	}
	return Proof{Message: message, Body: body}, nil
}

// Verify returns nil if the maker of the proof knew the key owner's signature of
// the message and made the proof for the context. Its error is ErrInvalid, or
// states why the key cannot be used.
func (p Proof) Verify(key *rsa.PublicKey, context []byte) error {
	if err := checkMessage(p.Message); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return verifyRSA(p, key, context)
}

// checkMessage returns an error unless the text has the form of a header and
// claims.
func checkMessage(text string) error {
	if len(text) > maxMessage {
		return fmt.Errorf("header and claims have %d bytes, at most %d are taken", len(text), maxMessage)
	}
	header, claims, ok := strings.Cut(text, ".")
	if !ok || header == "" || claims == "" {
		return errors.New("want header.claims")
	}
	for _, part := range []string{header, claims} {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return errors.New("header and claims must be base64url")
		}
	}
	return nil
}

// Marshal encodes the proof for Parse.
func (p Proof) Marshal() ([]byte, error) {
	der, err := asn1.Marshal(encoded{Version: version, Message: []byte(p.Message), Body: p.Body})
	if err != nil {
		return nil, fmt.Errorf("encode the proof: %w", err)
	}
	if len(der) > MaxSize {
		return nil, fmt.Errorf("the proof has %d bytes, at most %d are taken", len(der), MaxSize)
	}
	return der, nil
}

// Parse reads the output of Marshal, and nothing else. It does not verify the
// proof. Its errors are ErrInvalid.
func Parse(der []byte) (Proof, error) {
	if len(der) > MaxSize {
		return Proof{}, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrInvalid, len(der), MaxSize)
	}
	var e encoded
	rest, err := asn1.Unmarshal(der, &e)
	switch {
	case err != nil:
		return Proof{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	case len(rest) > 0:
		return Proof{}, fmt.Errorf("%w: %d bytes follow it", ErrInvalid, len(rest))
	case e.Version != version:
		return Proof{}, fmt.Errorf("%w: version %d, want %d", ErrInvalid, e.Version, version)
	}
	p := Proof{Message: string(e.Message), Body: e.Body}
	if err := checkMessage(p.Message); err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	// Package asn1 ignores data after the last field.
	if again, err := p.Marshal(); err != nil || !bytes.Equal(again, der) {
		return Proof{}, fmt.Errorf("%w: not in its canonical encoding", ErrInvalid)
	}
	return p, nil
}
