// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// TLS is the encryption of the autoscaler's own API, with the content that the files
// had when the configuration was read. The zero value means plain HTTP.
type TLS struct {
	CertFile, KeyFile, CAFile string
	// VerifyClient requires a certificate of every caller, signed by an authority in
	// CAFile.
	VerifyClient bool

	Certificate *tls.Certificate // nil is plain HTTP
	Authorities *x509.CertPool   // of CAFile, nil for those of the system
}

func (t *TLS) settings() settings {
	return settings{
		define("cert_file", &t.CertFile, "", path, "Certificate of the API and its chain, in PEM.").or("required"),
		define("key_file", &t.KeyFile, "", path, "Key of the certificate, in PEM.").or("required"),
		define("ca_file", &t.CAFile, "", path, "Authority that signs the certificates of other autoscalers and of callers, in PEM.").or("those of the system"),
		define("verify_client", &t.VerifyClient, false, boolean, "Requires a certificate of every caller, signed by `ca_file`."),
	}
}

// Enabled reports whether the API speaks TLS.
func (t *TLS) Enabled() bool { return t.Certificate != nil }

// Files returns the files that the TLS settings name.
func (t *TLS) Files() []string {
	var out []string
	for _, f := range []string{t.CertFile, t.KeyFile, t.CAFile} {
		if f != "" {
			out = append(out, f)
		}
	}
	return out
}

// soon is how long before its end a certificate is warned about.
const soon = 7 * 24 * time.Hour

func (t *TLS) read(b *hcl.Block) (warnings []string, diags hcl.Diagnostics) {
	content, diags := t.settings().read(b.Body)
	if diags.HasErrors() {
		return nil, diags
	}
	for _, name := range []string{"cert_file", "key_file"} {
		if content.Attributes[name] == nil {
			diags = append(diags, wrong(b.DefRange, "Missing argument", name+" is missing; TLS requires a cert_file and the key_file that belongs to it, in PEM. Without a tls block the API is plain HTTP."))
		}
	}
	if t.VerifyClient && t.CAFile == "" {
		diags = append(diags, wrong(content.Attributes["verify_client"].Range, "Missing argument", "verify_client requires a ca_file: the authority that signs the certificates of callers."))
	}
	if diags.HasErrors() {
		return nil, diags
	}
	if t.CAFile != "" {
		if t.Authorities, diags = authorities(content.Attributes["ca_file"], t.CAFile); diags.HasErrors() {
			return nil, diags
		}
	}
	cert, diags := pair(content.Attributes["cert_file"], content.Attributes["key_file"], t.CertFile, t.KeyFile)
	if diags.HasErrors() {
		return nil, diags
	}
	t.Certificate = cert
	return t.age(content.Attributes["cert_file"].Range, time.Now()), nil
}

func authorities(a *hcl.Attribute, path string) (*x509.CertPool, hcl.Diagnostics) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, wrongValue(a, "%v; write the path of a file that is there and that the autoscaler may read.", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, wrongValue(a, "%s holds no certificate in PEM; write the path of the authority's certificate.", path)
	}
	return pool, nil
}

// pair loads a certificate with its key. Errors name the one of the two that is
// wrong, as far as that is known.
func pair(certAttr, keyAttr *hcl.Attribute, certFile, keyFile string) (*tls.Certificate, hcl.Diagnostics) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		return &cert, nil
	}
	var missing *fs.PathError
	switch {
	case errors.As(err, &missing) && missing.Path == keyFile:
		return nil, wrongValue(keyAttr, "%v; write the path of a file that is there and that the autoscaler may read.", err)
	case errors.As(err, &missing):
		return nil, wrongValue(certAttr, "%v; write the path of a file that is there and that the autoscaler may read.", err)
	}
	return nil, wrongValue(keyAttr, "%s and %s are no pair: %v. Write the certificate, its chain after it, and the key that it was issued for, in PEM.", certFile, keyFile, err)
}

// age warns of a certificate that is not valid at a time, or not for long.
func (t *TLS) age(at hcl.Range, now time.Time) []string {
	leaf := t.Certificate.Leaf
	where := fmt.Sprintf("%s:%d: %s", at.Filename, at.Start.Line, t.CertFile)
	switch {
	case now.After(leaf.NotAfter):
		return []string{fmt.Sprintf("%s has expired at %s; callers will refuse it: renew it, the autoscaler takes a changed file over", where, leaf.NotAfter.Format(time.RFC3339))}
	case now.Before(leaf.NotBefore):
		return []string{fmt.Sprintf("%s is not valid before %s; callers will refuse it: look at this machine's clock", where, leaf.NotBefore.Format(time.RFC3339))}
	case leaf.NotAfter.Sub(now) < soon:
		return []string{fmt.Sprintf("%s expires at %s; renew it, the autoscaler takes a changed file over", where, leaf.NotAfter.Format(time.RFC3339))}
	}
	return nil
}
