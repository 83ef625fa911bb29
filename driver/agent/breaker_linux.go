// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Gloo notices a peer that died only on the connections to that peer; the
// other members of a ring wait for one another until their time-out, 30 s by
// default. The agent knows at once, and is an ancestor of its slots, so it may
// take their sockets (pidfd_getfd, Linux 5.6) and shut down those of the
// broken ring. Each process then sees what it would see if its neighbour had
// died, and recovers.

// blobEntry is the size of one peer's entry in a Gloo address blob: a
// sockaddr_storage and a sequence number (gloo/transport/tcp/address.cc).
const blobEntry = 136

// blobAddrs returns the listening addresses in the blob of one member.
func blobAddrs(blob []byte) []netip.AddrPort {
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

// breakSockets shuts down the connections of a process and its descendants
// that have one end at one of the given listening addresses, and returns how
// many.
func breakSockets(pid int, listening map[netip.AddrPort]bool) (int, error) {
	pids, err := descendants(pid)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range pids {
		k, err := breakProcess(p, listening)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func breakProcess(pid int, listening map[netip.AddrPort]bool) (int, error) {
	inodes := map[string]bool{}
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			continue
		}
		matchSockets(f, listening, inodes)
		_ = f.Close()
	}
	if len(inodes) == 0 {
		return 0, nil
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("pidfd_open: %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	n := 0
	for _, e := range fds {
		link, err := os.Readlink(dir + "/" + e.Name())
		if err != nil || !inodes[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] {
			continue
		}
		num, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(pidfd, num, 0)
		if err != nil {
			return n, fmt.Errorf("pidfd_getfd: %w", err)
		}
		if unix.Shutdown(fd, unix.SHUT_RDWR) == nil {
			n++
		}
		_ = unix.Close(fd)
	}
	return n, nil
}

// established is TCP_ESTABLISHED in the kernel's tables.
const established = "01"

// matchSockets reads a table in the form of /proc/net/tcp and notes the inodes
// of established connections with an end at a listening address.
func matchSockets(r io.Reader, listening map[netip.AddrPort]bool, inodes map[string]bool) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 10 || f[3] != established {
			continue
		}
		local, ok1 := parseSocketAddr(f[1])
		remote, ok2 := parseSocketAddr(f[2])
		if ok1 && listening[local] || ok2 && listening[remote] {
			inodes[f[9]] = true
		}
	}
}

// parseSocketAddr reads "0100007F:1F90": the address as 32-bit words in the
// machine's byte order, the port in hex.
func parseSocketAddr(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	p, err := strconv.ParseUint(port, 16, 16)
	b, err2 := hex.DecodeString(host)
	if !ok || err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p)), true
}

// descendants returns a process and all it started, directly or not.
func descendants(pid int) ([]int, error) {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The command, in brackets, may hold spaces and brackets itself.
		_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if f := strings.Fields(rest); ok && len(f) > 1 {
			if ppid, err := strconv.Atoi(f[1]); err == nil {
				children[ppid] = append(children[ppid], p)
			}
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}
