// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest/authority"
)

func TestHTTP_Settings(t *testing.T) {
	c, err := parse(`http {
  hosts      = ["Kolo.example", ".service.consul"]
  read_token = true
  open       = true
  unix       = "/run/kolo/other.sock"
  unix_group = "operators"
}`)
	must.NoError(t, err)
	must.Eq(t, HTTP{
		Bind: "127.0.0.1", Port: 8648, Hosts: []string{"kolo.example", ".service.consul"}, ReadToken: true, Open: true,
		Unix: "/run/kolo/other.sock", UnixGroup: "operators",
	}, c.HTTP)
	must.False(t, Default().HTTP.Open)
	must.False(t, Default().HTTP.TLS.Enabled())
}

func TestHTTP_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"a host with a port":     {`http { hosts = ["kolo.example:80"] }`, `kolo.hcl:1: Wrong value for hosts: "kolo.example:80" is not a name of a host; write hosts = ["kolo.example", ".service.consul"]`},
		"a URL":                  {`http { hosts = ["http://kolo.example"] }`, "is not a name of a host"},
		"every host":             {`http { hosts = ["*"] }`, "is not a name of a host"},
		"every host, otherwise":  {`http { hosts = ["."] }`, "is not a name of a host"},
		"one host":               {`http { hosts = "kolo.example" }`, "A list of names is expected"},
		"a number":               {`http { hosts = [1] }`, "A list of names is expected"},
		"a relative path":        {`http { unix = "kolo.sock" }`, `"kolo.sock" is not an absolute path; write one such as "/run/kolo/kolo.sock", or "off" for no socket`},
		"a group of no socket":   {"http {\n unix = \"off\"\n unix_group = \"ops\"\n}", "kolo.hcl:3: Contradiction: unix_group"},
		"TLS in the wrong place": {"tls {}", "Unsupported block type"},
		"TLS twice":              {"http {\n tls {}\n tls {}\n}", "kolo.hcl:3: Repeated block: http has one tls block"},
		"TLS without a file":     {"http {\n tls {}\n}", "kolo.hcl:2: Missing argument: cert_file is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.in)
			must.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTLS_Mistakes(t *testing.T) {
	ca := authority.New(t, "ca")
	cert, key := ca.Issue(authority.Leaf{Names: []string{"kolo.example"}})
	_, another := ca.Issue(authority.Leaf{})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, tc := range map[string]struct{ cert, key, more, want string }{
		"right":                   {cert, key, fmt.Sprintf("ca_file = %q\n verify_client = true", ca.File), ""},
		"a key of another":        {cert, another, "", fmt.Sprintf("kolo.hcl:4: Wrong value for key_file: %s and %s are no pair: tls: private key does not match public key", cert, another)},
		"a certificate as a key":  {cert, cert, "", "are no pair"},
		"no certificate":          {"/nowhere.pem", key, "", "kolo.hcl:3: Wrong value for cert_file: open /nowhere.pem: no such file or directory; write the path of a file"},
		"no key":                  {cert, "/nowhere.pem", "", "kolo.hcl:4: Wrong value for key_file: open /nowhere.pem"},
		"an empty certificate":    {empty, key, "", "are no pair"},
		"an empty authority":      {cert, key, fmt.Sprintf("ca_file = %q", empty), "kolo.hcl:5: Wrong value for ca_file: " + empty + " holds no certificate in PEM"},
		"no authority":            {cert, key, `ca_file = "/nowhere"`, "kolo.hcl:5: Wrong value for ca_file: open /nowhere"},
		"clients of no authority": {cert, key, "verify_client = true", "kolo.hcl:5: Missing argument: verify_client requires a ca_file"},
		"a name of Nomad's":       {cert, key, "verify_https_client = true", "kolo.hcl:5: Unsupported argument"},
		"no boolean":              {cert, key, `verify_client = "yes"`, "kolo.hcl:5: Wrong value for verify_client"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(fmt.Sprintf("http {\n tls {\n cert_file = %q\n key_file = %q\n %s\n }\n}", tc.cert, tc.key, tc.more))
			if tc.want != "" {
				must.ErrorContains(t, err, tc.want)
				return
			}
			must.NoError(t, err)
			must.True(t, c.HTTP.TLS.Enabled())
			must.True(t, c.HTTP.TLS.VerifyClient)
			must.Eq(t, []string{cert, key, ca.File}, c.HTTP.TLS.Files())
			must.SliceEmpty(t, c.Warnings)
		})
	}
}

func TestTLS_WarnsOfItsEnd(t *testing.T) {
	ca := authority.New(t, "ca")
	for until, want := range map[time.Duration]string{-time.Minute: "has expired at", time.Hour: "expires at", 30 * 24 * time.Hour: ""} {
		cert, key := ca.Issue(authority.Leaf{Until: time.Now().Add(until)})
		c, err := parse(fmt.Sprintf("http {\n tls {\n cert_file = %q\n key_file = %q\n }\n}", cert, key))
		must.NoError(t, err)
		if want == "" {
			must.SliceEmpty(t, c.Warnings)
			continue
		}
		must.Len(t, 1, c.Warnings)
		must.StrContains(t, c.Warnings[0], "kolo.hcl:3: "+cert+" "+want)
	}
}
