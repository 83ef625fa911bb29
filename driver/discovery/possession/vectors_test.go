// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

var update = flag.Bool("update", false, "write testdata/vectors.json, with a new RSA key")

// A vector is a proof made with known random numbers. The key of its token is used nowhere
// else.
type vector struct {
	Name    string `json:"name"`
	Modulus string `json:"modulus"`
	Token   string `json:"token"`
	Context string `json:"context"`
	// Seed is the seed of the ChaCha8 generator of the random numbers.
	Seed  string `json:"seed"`
	Proof string `json:"proof"` // DER
}

func (v vector) key(t *testing.T) *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).SetBytes(unhex(t, v.Modulus)), E: exponent}
}

func (v vector) make(t *testing.T) string {
	p, err := prove(rand.NewChaCha8([32]byte(unhex(t, v.Seed))), v.Token, v.key(t), unhex(t, v.Context))
	must.NoError(t, err)
	der, err := p.Marshal()
	must.NoError(t, err)
	return hex.EncodeToString(der)
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	must.NoError(t, err)
	return b
}

// TestVectors fails if the format of proofs changes, because agents of two versions verify
// each other's proofs while a job is updated.
func TestVectors(t *testing.T) {
	file := filepath.Join("testdata", "vectors.json")
	if *update {
		writeVectors(t, file)
	}
	text, err := os.ReadFile(file)
	must.NoError(t, err)
	var all []vector
	must.NoError(t, json.Unmarshal(text, &all))
	must.Len(t, 1, all)
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			p, err := Parse(unhex(t, v.Proof))
			must.NoError(t, err)
			must.NoError(t, p.Verify(v.key(t), unhex(t, v.Context)))
			must.Eq(t, v.Proof, v.make(t))
		})
	}
}

func writeVectors(t *testing.T, file string) {
	r := rsaSigner(t, 2048)
	var all []vector
	for _, v := range []vector{
		{Name: "RS256", Modulus: hex.EncodeToString(r.public.N.Bytes()), Token: r.token(`{"sub":"vector"}`)},
	} {
		seed := sha256.Sum256([]byte(v.Name))
		v.Context, v.Seed = hex.EncodeToString(testContext), hex.EncodeToString(seed[:])
		v.Proof = v.make(t)
		all = append(all, v)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	must.NoError(t, err)
	must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.NoError(t, os.WriteFile(file, append(text, '\n'), 0o600))
}
