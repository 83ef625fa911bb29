// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"math/big"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/possession"
)

const (
	// certificateLife is the longest validity of an agent's certificate.
	certificateLife = 15 * time.Minute
	// certificateSize bounds a certificate in bytes.
	certificateSize = possession.MaxSize + 4<<10
	// clockLeeway is the tolerated clock difference at the end of a validity period.
	clockLeeway = 30 * time.Second
	// startLeeway is the tolerated clock difference at its start, which is always recent: a
	// certificate's validity starts this long before it is made, and an identity may have
	// been issued this far in the future.
	startLeeway = 2 * time.Minute
)

// proofExtension identifies the certificate extension that holds the proof. The arc 2.25 is
// for UUIDs; the last number is a part of a UUID, since package x509 reads no number above
// 2^31. Only agents read these certificates.
var proofExtension = asn1.ObjectIdentifier{2, 25, 1730486139, 1}

// binding returns the context that a proof is bound to: a TLS key and a validity period.
// The times come before the key because only the key varies in length.
func binding(spki []byte, notBefore, notAfter time.Time) []byte {
	b := []byte("kolo agent certificate v1\x00")
	b = binary.BigEndian.AppendUint64(b, uint64(notBefore.Unix())) //nolint:gosec // any number will do if different times give different numbers
	b = binary.BigEndian.AppendUint64(b, uint64(notAfter.Unix()))  //nolint:gosec // likewise
	return append(b, spki...)
}

// newCertificate makes a self-signed certificate for a new key. prove makes the proof for
// the binding.
func newCertificate(notBefore, notAfter time.Time, prove func(binding []byte) (possession.Proof, error)) (*tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode the TLS key: %w", err)
	}
	proof, err := prove(binding(spki, notBefore, notAfter))
	if err != nil {
		return nil, err
	}
	value, err := proof.Marshal()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "kolo agent"},
		NotBefore: notBefore.UTC(), NotAfter: notAfter.UTC(),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtraExtensions: []pkix.Extension{{Id: proofExtension, Critical: true, Value: value}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	if cert.Leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the certificate that was made: %w", err)
	}
	return cert, nil
}

// readCertificate checks a peer's certificate, except for the proof, which it returns. Its
// errors are ErrInvalid.
func readCertificate(cert *x509.Certificate, now time.Time) (possession.Proof, error) {
	refuse := func(format string, args ...any) (possession.Proof, error) {
		return possession.Proof{}, fmt.Errorf("%w: the certificate %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	life := cert.NotAfter.Sub(cert.NotBefore)
	switch {
	case len(cert.Raw) > certificateSize:
		return refuse("has %d bytes, at most %d are taken", len(cert.Raw), certificateSize)
	case life < 0 || life > certificateLife:
		return refuse("is made for %s, at most %s are allowed", life, certificateLife)
	case now.Before(cert.NotBefore.Add(-clockLeeway)):
		return refuse("is not valid before %s", cert.NotBefore)
	case now.After(cert.NotAfter.Add(clockLeeway)):
		return refuse("expired at %s", cert.NotAfter)
	case cert.SignatureAlgorithm != x509.PureEd25519 || cert.PublicKeyAlgorithm != x509.Ed25519:
		return refuse("has a key of another kind than Ed25519: %s", cert.PublicKeyAlgorithm)
	case !bytes.Equal(cert.RawIssuer, cert.RawSubject):
		return refuse("is issued by %q, want it self-signed", cert.Issuer)
	}
	var value []byte
	for _, e := range cert.Extensions {
		if e.Id.Equal(proofExtension) {
			value = e.Value // package x509 rejects a certificate with the extension twice
		}
	}
	if value == nil {
		return refuse("holds no proof of a workload identity")
	}
	if err := cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
		return refuse("is not signed with its own key: %v", err)
	}
	proof, err := possession.Parse(value)
	if err != nil {
		return possession.Proof{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return proof, nil
}
