// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/possession"
)

func TestVerifier_certificates(t *testing.T) {
	key := newRSA(t, "rsa")
	v := newFakeKeys(key).verifier()
	token := key.sign(t, nomadClaims())
	made := func(at time.Duration, life time.Duration) *x509.Certificate {
		return certify(t, token, key.pub, testNow.Add(at), life)
	}
	good := made(0, certificateLife)
	_, err := v.Verify(t.Context(), good)
	must.NoError(t, err)
	_, err = v.Verify(t.Context(), made(-time.Minute-20*time.Second, time.Minute))
	must.NoError(t, err, must.Sprint("clocks differ"))

	for name, cert := range map[string]*x509.Certificate{
		"expired":               made(-2*time.Minute, time.Minute),
		"not yet":               made(time.Minute, time.Minute),
		"for too long":          made(0, certificateLife+time.Second),
		"for less than nothing": made(0, -time.Second),
		// No one can extend another's certificate, or put its proof into one of
		// their own.
		"longer, by another": transplant(t, good, testNow.Add(time.Second), testNow.Add(certificateLife+time.Second)),
		"proof of another":   transplant(t, good, good.NotBefore, good.NotAfter),
		"no proof":           transplant(t, &x509.Certificate{}, good.NotBefore, good.NotAfter),
	} {
		_, err := v.Verify(t.Context(), cert)
		must.ErrorIs(t, err, ErrInvalid, must.Sprint(name))
	}
	changed := *good
	changed.Signature = bytes.Clone(good.Signature)
	changed.Signature[0] ^= 1
	_, err = v.Verify(t.Context(), &changed)
	must.ErrorIs(t, err, ErrInvalid)
}

// transplant makes a certificate for a new key with the proof of another
// certificate.
func transplant(t *testing.T, from *x509.Certificate, notBefore, notAfter time.Time) *x509.Certificate {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter}
	for _, e := range from.Extensions {
		if e.Id.Equal(proofExtension) {
			template.ExtraExtensions = append(template.ExtraExtensions, e)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	must.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	must.NoError(t, err)
	return cert
}

// TestVerifier_remembers checks that valid proofs are verified once, and invalid
// ones each time.
func TestVerifier_remembers(t *testing.T) {
	key := newRSA(t, "rsa")
	v := newFakeKeys(key).verifier()
	for range 3 {
		_, err := v.Verify(t.Context(), certify(t, noSignature(key.sign(t, nomadClaims())), key.pub, testNow, time.Minute))
		must.ErrorIs(t, err, ErrInvalid)
	}
	must.MapEmpty(t, v.proofs.good)
	cert := certify(t, key.sign(t, nomadClaims()), key.pub, testNow, time.Minute)
	for range 3 {
		_, err := v.Verify(t.Context(), cert)
		must.NoError(t, err)
	}
	must.MapLen(t, 1, v.proofs.good)

	v.proofs.callers <- struct{}{} // someone else's is being verified
	_, err := v.Verify(t.Context(), cert)
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	other := certify(t, key.sign(t, nomadClaims()), key.pub, testNow, time.Minute)
	_, err = v.Verify(ctx, other)
	must.ErrorIs(t, err, context.DeadlineExceeded)
	<-v.proofs.callers
	for range 2 { // the turn is given back
		_, err = v.Verify(t.Context(), certify(t, key.sign(t, nomadClaims()), key.pub, testNow, time.Minute))
		must.NoError(t, err)
	}
}

// FuzzVerifier covers the content of a stranger's certificate.
func FuzzVerifier(f *testing.F) {
	key := newRSA(f, "rsa")
	v := newFakeKeys(key).verifier()
	good := certify(f, key.sign(f, nomadClaims()), key.pub, testNow, time.Minute)
	f.Add(good.Raw)
	f.Add(good.Raw[:len(good.Raw)-1])
	f.Fuzz(func(t *testing.T, der []byte) {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return
		}
		id, err := v.Verify(t.Context(), cert)
		if err == nil && !bytes.Equal(cert.RawTBSCertificate, good.RawTBSCertificate) {
			t.Fatalf("%x was believed to be %+v", der, id)
		}
	})
}

// FuzzReadClaims covers the token in a stranger's proof.
func FuzzReadClaims(f *testing.F) {
	key := newRSA(f, "rsa")
	v := newFakeKeys(key).verifier()
	token := key.sign(f, nomadClaims())
	f.Add(token[:strings.LastIndex(token, ".")])
	f.Add(".")
	f.Fuzz(func(t *testing.T, message string) {
		if _, c, err := readClaims(message); err == nil {
			if id, err := v.judge(c); err == nil && (id.JobID != "train" || id.Namespace != "ml" || id.Task == "") {
				t.Fatalf("%q is judged to be %+v", message, id)
			}
		}
	})
}

// forgeCertificate makes a certificate that claims what a token does, with a
// proof that its maker could make without the signature: none.
func forgeCertificate(t *testing.T, token string, notBefore time.Time, life time.Duration) *tls.Certificate {
	cert, err := newCertificate(notBefore, notBefore.Add(life), func([]byte) (possession.Proof, error) {
		return possession.Proof{Message: strings.TrimSuffix(token, "."), Body: make([]byte, 96)}, nil
	})
	must.NoError(t, err)
	return cert
}

func numericDate(t time.Time) *jwt.NumericDate { return jwt.NewNumericDate(t) }
