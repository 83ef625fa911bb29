// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

// established returns the established connections of this network namespace, with their
// cgroups. It costs a fraction of reading /proc/net/tcp; see BenchmarkConnections.
func (k *kernel) established() ([]Socket, error) {
	link, err := k.open()
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	all, err := dump(int(link.Fd()))
	if err != nil {
		_ = link.Close() // the rest of the answer may still come
		return nil, fmt.Errorf("sock_diag: dump: %w", err)
	}
	k.idle.Put(link)
	return all, nil
}

// lenDumpRequest is the length of struct inet_diag_req, in bytes.
const lenDumpRequest = 60

// dumpRequest asks for all established connections. It is the older of two such requests:
// the kernel answers it for IPv4 and IPv6 together, and most of the work is to walk the
// kernel's whole table, however few connections it has.
func dumpRequest() []byte {
	const length = unix.SizeofNlMsghdr + lenDumpRequest
	b := make([]byte, length)
	binary.NativeEndian.PutUint32(b, length)
	binary.NativeEndian.PutUint16(b[4:], typeTCPDiag)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := b[unix.SizeofNlMsghdr:]
	body[3] = 1 << (attrClass - 1)
	binary.NativeEndian.PutUint32(body[52:], 1<<Established)
	return b
}

// dump asks for all established connections, and reads the answer.
func dump(fd int) (all []Socket, err error) {
	if err := unix.Sendto(fd, dumpRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	answer := make([]byte, 64<<10) // the kernel sends at most half as much at a time
	for {
		n, from, err := unix.Recvfrom(fd, answer, 0)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR), err == nil && (!ok || sender.Pid != 0):
			continue
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		}
		for kind, message := range netlinkMessages(answer[:n]) {
			if kind == unix.NLMSG_DONE {
				return all, doneError(message)
			}
			s, err := parseDiag(message)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
}

// doneError returns the error at the end of a dump, nil if the dump is complete.
func doneError(message []byte) error {
	body := message[unix.SizeofNlMsghdr:]
	if len(body) < 4 {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
		return syscall.Errno(-code)
	}
	return nil
}

// netlinkMessages yields the messages of a packet, with their types. It stops at a
// truncated one.
func netlinkMessages(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			n := int(binary.NativeEndian.Uint32(b))
			if n < unix.SizeofNlMsghdr || n > len(b) || !yield(binary.NativeEndian.Uint16(b[4:]), b[:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}
