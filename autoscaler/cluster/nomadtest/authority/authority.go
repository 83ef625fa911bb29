// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package authority signs certificates for tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Authority signs certificates that live as long as a test.
type Authority struct {
	Cert *x509.Certificate
	File string // its certificate

	t   *testing.T
	key *ecdsa.PrivateKey
}

// New returns an authority with a new key.
func New(t *testing.T, name string) *Authority {
	t.Helper()
	a := &Authority{t: t}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	raw := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, &a.key.PublicKey)
	a.Cert, err = x509.ParseCertificate(raw)
	must.NoError(t, err)
	a.File = filepath.Join(t.TempDir(), name+".pem")
	a.write(a.File, "CERTIFICATE", raw)
	return a
}

func (a *Authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent := a.Cert
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	must.NoError(a.t, err)
	return raw
}

func (a *Authority) write(path, kind string, raw []byte) {
	must.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
}

// Leaf describes a certificate to issue. It is valid from an hour ago, for a month
// unless Until is set.
type Leaf struct {
	Names []string
	IPs   []net.IP
	Usage []x509.ExtKeyUsage // none means server and client
	Until time.Time
}

// Issue signs a certificate and returns the paths of the certificate and its key.
func (a *Authority) Issue(l Leaf) (cert, key string) {
	a.t.Helper()
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.IssueTo(l, cert, key)
	return cert, key
}

// IssueTo signs a certificate and writes it and its key to the given files.
func (a *Authority) IssueTo(l Leaf, cert, key string) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(a.t, err)
	if l.Usage == nil {
		l.Usage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	if l.Until.IsZero() {
		l.Until = time.Now().Add(30 * 24 * time.Hour)
	}
	name := "leaf"
	if len(l.Names) > 0 {
		name = l.Names[0]
	}
	raw := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: l.Names, IPAddresses: l.IPs,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: l.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.Usage,
	}, &k.PublicKey)
	der, err := x509.MarshalECPrivateKey(k)
	must.NoError(a.t, err)
	a.write(cert, "CERTIFICATE", raw)
	a.write(key, "EC PRIVATE KEY", der)
}
