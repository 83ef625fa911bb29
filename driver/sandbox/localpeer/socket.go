// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import "net/netip"

// Established is the state of a TCP connection that both ends have open
// (TCP_ESTABLISHED in the kernel).
const Established = 1

// Socket is one end of a TCP connection in this network namespace, as the kernel
// lists it.
type Socket struct {
	// Local is the address of this end, Remote that of the other end. IPv4
	// addresses in IPv6 form are given as IPv4.
	Local, Remote netip.AddrPort
	// State is the kernel's number of the TCP state.
	State uint8
	// UID is the user that made the socket.
	UID uint32
	// Inode identifies the socket among the open files of processes. It is 0 once
	// no process has it open.
	Inode uint64
	// Cgroup is the ID of the cgroup (version 2) in which the socket was made, 0 if
	// the kernel does not report it.
	Cgroup uint64
}
