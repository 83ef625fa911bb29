// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// blobEntry is the size of one peer's entry in a Gloo address blob: a
// sockaddr_storage and a sequence number (gloo/transport/tcp/address.cc).
const blobEntry = 136

// blobAddresses returns the listening addresses in the blob of one member.
func blobAddresses(blob []byte) []netip.AddrPort {
	if len(blob)%blobEntry != 0 {
		return nil
	}
	var addrs []netip.AddrPort
	for ; len(blob) > 0; blob = blob[blobEntry:] {
		port := binary.BigEndian.Uint16(blob[2:])
		switch binary.LittleEndian.Uint16(blob) {
		case unix.AF_INET:
			addrs = append(addrs, netip.AddrPortFrom(netip.AddrFrom4([4]byte(blob[4:8])), port))
		case unix.AF_INET6:
			addrs = append(addrs, netip.AddrPortFrom(netip.AddrFrom16([16]byte(blob[8:24])).Unmap(), port))
		}
	}
	return addrs
}
