// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// The kernel's list of connections and its table have the same data about each connection, for all
// families. The list also has the cgroup.
func TestDumpAgreesWithTheTable(t *testing.T) {
	var k kernel
	own, err := k.ownListener()
	if err != nil {
		t.Skipf("this kernel has no inet_diag: %v", err)
	}
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": "[::]:0"} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Skipf("no address of this family: %v", err)
			}
			defer func() { _ = l.Close() }()
			to := l.Addr().(*net.TCPAddr).AddrPort()
			if to.Addr().IsUnspecified() { // an IPv4 connection in a socket of IPv6
				to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
			}
			client, err := net.Dial("tcp", to.String())
			must.NoError(t, err)
			defer func() { _ = client.Close() }()
			server, err := l.Accept()
			must.NoError(t, err)
			defer func() { _ = server.Close() }()

			dumped, err := k.established()
			must.NoError(t, err)
			listed, err := table()
			must.NoError(t, err)
			from := client.LocalAddr().(*net.TCPAddr).AddrPort()
			for _, p := range []pair{{to, from}, {from, to}} {
				want := listed[p]
				want.Cgroup = own.Cgroup
				i := slices.IndexFunc(dumped, func(s Socket) bool { return s.Local == p.local && s.Remote == p.remote })
				must.GreaterEq(t, 0, i)
				must.Eq(t, want, dumped[i])
			}
			for _, s := range dumped {
				must.Eq(t, Established, int(s.State))
			}
			for name, task := range map[string]*Task{"cgroup": NewTask(own.Cgroup, hclog.NewNullLogger()), "processes": NewTask(0, hclog.NewNullLogger())} {
				found, err := task.Connections(map[netip.AddrPort]bool{to: true})
				must.NoError(t, err)
				must.SliceLen(t, 2, found, must.Sprint(name))
			}
			other := NewTask(own.Cgroup, hclog.NewNullLogger())
			other.once.Do(func() { other.cgroup = own.Cgroup + 1 })
			found, err := other.Connections(map[netip.AddrPort]bool{to: true})
			must.NoError(t, err)
			must.SliceEmpty(t, found)
		})
	}
}

// FuzzNetlinkMessages: a truncated or garbled answer has no message beyond its end.
func FuzzNetlinkMessages(f *testing.F) {
	for _, b := range [][]byte{nil, dumpRequest(), append(dumpRequest(), dumpRequest()...), dumpRequest()[:20], make([]byte, 40)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		for kind, message := range netlinkMessages(b) {
			total += len(message)
			if kind != 3 { // NLMSG_DONE
				_, _ = parseDiag(message)
			} else {
				_ = doneError(message)
			}
		}
		must.LessEq(t, len(b), total)
	})
}
