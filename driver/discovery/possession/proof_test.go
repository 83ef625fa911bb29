// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"

	"filippo.io/bigmod"
	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// signer makes tokens as Nomad does.
type signer struct {
	public *rsa.PublicKey
	sign   func(message string) []byte
}

func rsaSigner(t testing.TB, bits int) signer {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	must.NoError(t, err)
	return signer{&key.PublicKey, func(message string) []byte {
		digest := sha256.Sum256([]byte(message))
		s, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
		must.NoError(t, err)
		return s
	}}
}

func signers(t testing.TB) map[string]signer {
	return map[string]signer{"RSA-2048": rsaSigner(t, 2048), "RSA-2056": rsaSigner(t, 2056)}
}

func message(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode([]byte(claims))
}

func (s signer) token(claims string) string {
	m := message(claims)
	return m + "." + base64.RawURLEncoding.EncodeToString(s.sign(m))
}

var testContext = []byte("public key, validity")

func TestProof(t *testing.T) {
	for name, s := range signers(t) {
		t.Run(name, func(t *testing.T) {
			token := s.token(`{"sub":"a"}`)
			p, err := Prove(token, s.public, testContext)
			must.NoError(t, err)
			must.Eq(t, message(`{"sub":"a"}`), p.Message)
			must.NoError(t, p.Verify(s.public, testContext))

			der, err := p.Marshal()
			must.NoError(t, err)
			again, err := Parse(der)
			must.NoError(t, err)
			must.Eq(t, p, again)

			signature := s.sign(p.Message)
			must.False(t, bytes.Contains(der, signature))
			other, err := Prove(token, s.public, testContext)
			must.NoError(t, err)
			must.NotEq(t, p.Body, other.Body, must.Sprint("each proof takes random numbers of its own"))
		})
	}
}

// TestProof_holdsForItsContextOnly makes proofs of random claims for random
// contexts.
func TestProof_holdsForItsContextOnly(t *testing.T) {
	all := signers(t)
	rapid.Check(t, func(t *rapid.T) {
		s := all[rapid.SampledFrom([]string{"RSA-2048", "RSA-2056"}).Draw(t, "key")]
		claims, context := rapid.String().Draw(t, "claims"), rapid.SliceOf(rapid.Byte()).Draw(t, "context")
		if claims == "" {
			claims = "{}"
		}
		p, err := Prove(s.token(claims), s.public, context)
		must.NoError(t, err)
		must.NoError(t, p.Verify(s.public, context))
		other := rapid.SliceOf(rapid.Byte()).Draw(t, "another context")
		if !bytes.Equal(context, other) {
			must.ErrorIs(t, p.Verify(s.public, other), ErrInvalid)
		}
		at := rapid.IntRange(0, len(p.Body)-1).Draw(t, "changed byte")
		p.Body[at] ^= rapid.ByteRange(1, 255).Draw(t, "change")
		must.ErrorIs(t, p.Verify(s.public, context), ErrInvalid)
	})
}

func TestProof_forgeries(t *testing.T) {
	for name, s := range signers(t) {
		for what, forge := range map[string]func(*Proof){
			"other claims":    func(p *Proof) { p.Message = message(`{"sub":"b"}`) },
			"other header":    func(p *Proof) { p.Message = "e30" + p.Message[strings.Index(p.Message, "."):] },
			"no claims":       func(p *Proof) { p.Message, _, _ = strings.Cut(p.Message, ".") },
			"empty":           func(p *Proof) { p.Body = nil },
			"too short":       func(p *Proof) { p.Body = p.Body[:len(p.Body)-1] },
			"too long":        func(p *Proof) { p.Body = append(p.Body, 0) },
			"all zero":        func(p *Proof) { clear(p.Body) },
			"all ones":        func(p *Proof) { p.Body = bytes.Repeat([]byte{0xff}, len(p.Body)) },
			"half":            func(p *Proof) { p.Body = p.Body[:len(p.Body)/2] },
			"twice":           func(p *Proof) { p.Body = append(p.Body, p.Body...) },
			"the signature":   func(p *Proof) { copy(p.Body, s.sign(p.Message)) },
			"a long message":  func(p *Proof) { p.Message = message(strings.Repeat("x", maxMessage)) },
			"lines":           func(p *Proof) { p.Message = "e30\n." + strings.Repeat("e", 4) },
			"another's proof": func(p *Proof) { p.Body = must1(Prove(s.token(`{"sub":"b"}`), s.public, testContext)).Body },
			"another context": func(p *Proof) { p.Body = must1(Prove(s.token(`{"sub":"a"}`), s.public, []byte("x"))).Body },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				p := must1(Prove(s.token(`{"sub":"a"}`), s.public, testContext))
				p.Body = slices.Clone(p.Body)
				forge(&p)
				must.ErrorIs(t, p.Verify(s.public, testContext), ErrInvalid)
			})
		}
		t.Run(name+"/another key", func(t *testing.T) {
			p := must1(Prove(s.token(`{"sub":"a"}`), s.public, testContext))
			for _, other := range signers(t) {
				must.Error(t, p.Verify(other.public, testContext))
			}
		})
	}
}

func must1(p Proof, err error) Proof {
	if err != nil {
		panic(err)
	}
	return p
}

// forgeRSA answers every round with z, and with commitments for which the
// verifier computes the same challenges.
func forgeRSA(t *testing.T, key *rsa.PublicKey, text string, z, commitment *big.Int) Proof {
	g, err := newGroup(key, text)
	must.NoError(t, err)
	fill := func(v *big.Int) []byte { return v.FillBytes(make([]byte, g.modulus.Size())) }
	c, err := bigmod.NewNat().SetBytes(fill(commitment), g.modulus)
	must.NoError(t, err)
	challenges := g.challenges(text, testContext, slices.Repeat([]*bigmod.Nat{c}, rounds))
	return Proof{Message: text, Body: append(challenges[:], bytes.Repeat(fill(z), rounds)...)}
}

// TestRSA_degenerateAnswers: 0 answers every challenge to the commitment 0, and
// so does every multiple of a prime factor of n, modulo that factor.
func TestRSA_degenerateAnswers(t *testing.T) {
	key := rsaSigner(t, 2048).public
	text := message(`{"sub":"a"}`)
	for name, p := range map[string]Proof{
		"zero":        forgeRSA(t, key, text, new(big.Int), new(big.Int)),
		"the modulus": forgeRSA(t, key, text, key.N, new(big.Int)),
		"one":         forgeRSA(t, key, text, big.NewInt(1), big.NewInt(1)),
		"minus one":   forgeRSA(t, key, text, new(big.Int).Sub(key.N, big.NewInt(1)), new(big.Int).Sub(key.N, big.NewInt(1))),
	} {
		must.ErrorIs(t, p.Verify(key, testContext), ErrInvalid, must.Sprint(name))
	}
}

func TestProve_refuses(t *testing.T) {
	r := rsaSigner(t, 2048)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	must.NoError(t, err)
	key := *r.public
	for name, tc := range map[string]struct {
		token string
		key   *rsa.PublicKey
		want  string
	}{
		"empty":                 {"", r.public, "want header.claims.signature"},
		"no claims":             {"e30.e30", r.public, "want header.claims"},
		"signed by another":     {rsaSigner(t, 2048).token("{}"), r.public, "this RSA key"}, // its number may be above the modulus
		"too short for the key": {message("{}") + "." + strings.Repeat("A", 86), r.public, "not one of this RSA key"},
		"changed":               {message("{}") + r.token("[]")[len(message("[]")):], r.public, "not signed by this RSA key"},
		"not base64":            {message("{}") + ".!", r.public, "base64url"},
		"small key":             {r.token("{}"), &small.PublicKey, "1024 bits, want 2048"},
		"exponent 3":            {r.token("{}"), &rsa.PublicKey{N: key.N, E: 3}, "exponent is 3"},
		"exponent not prime":    {r.token("{}"), &rsa.PublicKey{N: key.N, E: 65537 * 3}, "exponent is 196611"},
		"even modulus":          {r.token("{}"), &rsa.PublicKey{N: new(big.Int).Add(key.N, big.NewInt(1)), E: key.E}, "odd"},
		"no key":                {r.token("{}"), nil, "odd"},
		"no modulus":            {r.token("{}"), &rsa.PublicKey{E: key.E}, "odd"},
		"huge modulus":          {r.token("{}"), &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), maxBits, 1), E: key.E}, "8193 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prove(tc.token, tc.key, testContext)
			must.ErrorContains(t, err, tc.want)
			must.Error(t, Proof{Message: message("{}"), Body: make([]byte, 96)}.Verify(tc.key, testContext))
		})
	}
}

func TestParse_refuses(t *testing.T) {
	s := rsaSigner(t, 2048)
	good, err := must1(Prove(s.token("{}"), s.public, nil)).Marshal()
	must.NoError(t, err)
	for name, der := range map[string][]byte{
		"nothing": nil, "rubbish": []byte("rubbish"), "cut off": good[:len(good)-1], "followed": append(slices.Clone(good), 0),
		"too long": make([]byte, MaxSize+1),
	} {
		_, err := Parse(der)
		must.ErrorIs(t, err, ErrInvalid, must.Sprint(name))
	}
	_, err = Proof{Message: message("{}"), Body: make([]byte, MaxSize)}.Marshal()
	must.ErrorContains(t, err, "at most")
}
