// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The request to the kernel is one exact look-up (inet_diag(7)) that needs no
// privilege. The netlink package among Nomad's dependencies requests a dump of all
// sockets instead, and does not read the cgroup.

// Lengths and numbers of linux/inet_diag.h, in bytes.
const (
	lenDiagRequest = 56
	lenDiagMessage = 72
	// typeTCPDiag is the type of requests and answers without a family
	// (TCPDIAG_GETSOCK).
	typeTCPDiag = 18
	// attrClass requests the attributes of traffic classes, including the cgroup's
	// ID.
	attrClass  = 6
	attrCgroup = 21
)

// errNoSocket means that the kernel knows no such socket, or cannot look for one.
var errNoSocket = errors.New("the kernel lists no such socket")

// kernel looks up sockets. It keeps its netlink sockets, because opening one takes
// longer than a look-up.
type kernel struct{ idle sync.Pool }

// socket returns the socket with these two addresses, or errNoSocket.
func (k *kernel) socket(local, remote netip.AddrPort) (Socket, error) {
	link, err := k.open()
	if err != nil {
		return Socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	s, err := ask(int(link.Fd()), local, remote)
	if err != nil && !errors.Is(err, errNoSocket) {
		_ = link.Close() // the answer may still come, and must not be taken for the next one's
		return Socket{}, fmt.Errorf("sock_diag: %w", err)
	}
	k.idle.Put(link)
	return s, err
}

// open returns a netlink socket without a pending request.
func (k *kernel) open() (*os.File, error) {
	if link, _ := k.idle.Get().(*os.File); link != nil {
		return link, nil
	}
	return openDiag()
}

// ownListener opens a listener and returns its socket as the kernel lists it.
func (k *kernel) ownListener() (Socket, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return Socket{}, err
	}
	defer func() { _ = l.Close() }()
	none := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	return k.socket(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), none)
}

// openDiag opens a netlink socket. As a file, it is closed by the garbage
// collector.
func openDiag() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	link := os.NewFile(uintptr(fd), "sock_diag")
	// The kernel answers within the call that asks; the time-out is for a lost
	// answer.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		_ = link.Close()
		return nil, fmt.Errorf("SO_RCVTIMEO: %w", err)
	}
	return link, nil
}

// ask sends one request and reads its answer.
func ask(fd int, local, remote netip.AddrPort) (Socket, error) {
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Socket{}, fmt.Errorf("send: %w", err)
	}
	answer := make([]byte, 1024)
	for {
		n, from, err := unix.Recvfrom(fd, answer, 0)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR), err == nil && (!ok || sender.Pid != 0):
			// Interrupted, or a message from another sender than the kernel.
		case err != nil:
			return Socket{}, fmt.Errorf("receive: %w", err)
		default:
			s, err := parseDiag(answer[:n])
			if err != nil {
				return Socket{}, err
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
		errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(body))) // the kernel's is negative
		if errno == unix.ENOENT {
			return Socket{}, errNoSocket
		}
		return Socket{}, errno
	}
	if kind != unix.SOCK_DIAG_BY_FAMILY && kind != typeTCPDiag || len(body) < lenDiagMessage {
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

// cgroupAttribute finds the cgroup's ID among the attributes of an answer. It
// returns 0 if there is none.
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
