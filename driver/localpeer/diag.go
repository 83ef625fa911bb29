// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// The question to the kernel is one exact look-up (inet_diag(7)); it needs no
// privilege. The netlink package among Nomad's dependencies asks for a dump of
// all sockets in its place, and does not read the cgroup.

// Lengths and numbers of linux/inet_diag.h, in bytes.
const (
	lenDiagRequest = 56
	lenDiagMessage = 72
	// attrClass asks for the attributes of traffic classes, the cgroup's ID
	// among them.
	attrClass  = 6
	attrCgroup = 21
)

// errNoSocket: the kernel knows no such socket, or not how to look for one.
var errNoSocket = errors.New("the kernel lists no such socket")

// diag asks the kernel for the socket with these two addresses.
func diag(local, remote netip.AddrPort) (Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return Socket{}, fmt.Errorf("sock_diag: socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel answers within the call that asks; this is for one that has
	// lost its answer.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return Socket{}, fmt.Errorf("sock_diag: SO_RCVTIMEO: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Socket{}, fmt.Errorf("sock_diag: send: %w", err)
	}
	answer := make([]byte, 1024)
	for {
		n, from, err := unix.Recvfrom(fd, answer, 0)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR), err == nil && (!ok || sender.Pid != 0):
			// Interrupted, or a message that is not the kernel's.
		case err != nil:
			return Socket{}, fmt.Errorf("sock_diag: receive: %w", err)
		default:
			s, err := parseDiag(answer[:n])
			if err != nil {
				return Socket{}, fmt.Errorf("sock_diag: %w", err)
			}
			if s.Local != local || s.Remote != remote {
				return Socket{}, errNoSocket // a listener, where the connection is gone
			}
			return s, nil
		}
	}
}

func diagRequest(local, remote netip.AddrPort) []byte {
	const length = unix.SizeofNlMsghdr + lenDiagRequest
	b := make([]byte, 0, length)
	b = binary.NativeEndian.AppendUint32(b, length)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number and sender
	family := byte(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	b = append(b, family, unix.IPPROTO_TCP, 1<<(attrClass-1), 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // all states
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, a := range []netip.Addr{local.Addr(), remote.Addr()} {
		at := len(b)
		b = append(b, a.AsSlice()...)
		b = append(b, make([]byte, at+16-len(b))...)
	}
	b = append(b, make([]byte, 4)...)                      // any interface
	return binary.NativeEndian.AppendUint64(b, ^uint64(0)) // any cookie
}

// parseDiag reads the kernel's answer: a message of one socket, or an error.
func parseDiag(b []byte) (Socket, error) {
	if len(b) < unix.SizeofNlMsghdr+4 {
		return Socket{}, fmt.Errorf("answer of %d bytes", len(b))
	}
	kind, body := binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	if kind == unix.NLMSG_ERROR {
		errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(body))) //nolint:gosec // the kernel's negative error number
		if errno == unix.ENOENT {
			return Socket{}, errNoSocket
		}
		return Socket{}, errno
	}
	if kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < lenDiagMessage {
		return Socket{}, fmt.Errorf("answer of type %d with %d bytes", kind, len(body))
	}
	address := func(port, addr int) netip.AddrPort {
		a := netip.AddrFrom4([4]byte(body[addr:]))
		if body[0] == unix.AF_INET6 {
			a = netip.AddrFrom16([16]byte(body[addr:])).Unmap()
		}
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(body[port:]))
	}
	return Socket{
		State: body[1], Local: address(4, 8), Remote: address(6, 24),
		UID:    binary.NativeEndian.Uint32(body[64:]),
		Inode:  uint64(binary.NativeEndian.Uint32(body[68:])),
		Cgroup: cgroupAttribute(body[lenDiagMessage:]),
	}, nil
}

// cgroupAttribute finds the cgroup's ID among the attributes of an answer, 0
// when it is not there.
func cgroupAttribute(attrs []byte) uint64 {
	for len(attrs) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(attrs))
		if n < unix.SizeofRtAttr || n > len(attrs) {
			break
		}
		if binary.NativeEndian.Uint16(attrs[2:]) == attrCgroup && n == unix.SizeofRtAttr+8 {
			return binary.NativeEndian.Uint64(attrs[unix.SizeofRtAttr:])
		}
		attrs = attrs[min((n+3)&^3, len(attrs)):]
	}
	return 0
}
