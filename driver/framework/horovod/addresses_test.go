// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestBlobAddresses(t *testing.T) {
	entry := func(family uint16, port uint16, at int, addr []byte) []byte {
		b := make([]byte, blobEntry)
		binary.LittleEndian.PutUint16(b, family)
		binary.BigEndian.PutUint16(b[2:], port)
		copy(b[at:], addr)
		return b
	}
	blob := append(entry(unix.AF_INET, 45911, 4, []byte{10, 0, 0, 7}),
		entry(unix.AF_INET6, 80, 8, net.ParseIP("fe80::1").To16())...)
	must.Eq(t, []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:45911"), netip.MustParseAddrPort("[fe80::1]:80")}, blobAddresses(blob))
	must.SliceEmpty(t, blobAddresses(blob[:100]))
	must.SliceEmpty(t, blobAddresses(nil))
}

// FuzzBlobAddresses: from any blob that a slot writes, only whole entries with an IP
// address are used.
func FuzzBlobAddresses(f *testing.F) {
	ip4, ip6 := make([]byte, blobEntry), make([]byte, blobEntry)
	binary.LittleEndian.PutUint16(ip4, unix.AF_INET)
	binary.LittleEndian.PutUint16(ip6, unix.AF_INET6)
	for _, blob := range [][]byte{nil, ip4, ip6, append(bytes.Clone(ip4), ip6...), ip4[:blobEntry-1], bytes.Repeat([]byte{0xff}, 2*blobEntry)} {
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		addrs := blobAddresses(blob)
		must.LessEq(t, len(blob)/blobEntry, len(addrs))
		for _, a := range addrs {
			must.True(t, a.Addr().IsValid())
			must.False(t, a.Addr().Is4In6())
			must.Eq(t, a, netip.MustParseAddrPort(a.String()))
		}
	})
}
