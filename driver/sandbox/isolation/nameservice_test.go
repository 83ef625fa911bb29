// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

func TestHostsFile(t *testing.T) {
	host := "127.0.0.1 localhost vm\n# 127.0.1.1 vm\n127.0.1.1 vm\n::1 localhost"
	must.Eq(t, "10.0.0.7 vm\n127.0.0.1 localhost\n# 127.0.1.1 vm\n::1 localhost\n", string(hostsFile(host, "vm", "10.0.0.7")))
}

func TestResolvConf(t *testing.T) {
	const host = "# a comment\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch corp\noptions ndots:1\n"
	cases := map[string]struct {
		dns  drivers.DNSConfig
		want string
	}{
		"all of the job":     {drivers.DNSConfig{Servers: []string{"1.1.1.1", "8.8.8.8"}, Searches: []string{"a", "b"}, Options: []string{"rotate"}}, "nameserver 1.1.1.1\nnameserver 8.8.8.8\nsearch a b\noptions rotate\n"},
		"servers of the job": {drivers.DNSConfig{Servers: []string{"1.1.1.1"}}, "nameserver 1.1.1.1\nsearch corp\noptions ndots:1\n"},
		"search of the job":  {drivers.DNSConfig{Searches: []string{"a"}}, "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a\noptions ndots:1\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, c.want, string(resolvConf(&c.dns, host)))
		})
	}
}

// A resolver that listens on the client's loopback does not answer in other networks.
func TestResolverOfAnotherNetwork(t *testing.T) {
	upstream := filepath.Join(t.TempDir(), "resolv.conf")
	must.NoError(t, os.WriteFile(upstream, []byte("nameserver 192.0.2.53\n"), 0o600))
	stub := "nameserver 127.0.0.53\noptions edns0\n"
	must.Eq(t, "nameserver 192.0.2.53\n", reachable(stub, upstream))
	must.Eq(t, stub, reachable(stub, upstream+"-missing"))
	must.Eq(t, "nameserver 192.0.2.1\n", reachable("nameserver 192.0.2.1\n", upstream))
}
