// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
	"github.com/kolo-nomad/kolo/driver/sandbox/remotecall"
)

// The collectives of a framework notice a dead peer only on the connections to that peer.
// The other members of a ring wait for one another until their time-out, 30 s by default in
// Gloo. The agent knows at once. As an ancestor of its slots' processes, it may take over
// their sockets (pidfd_getfd, Linux 5.6) and shut down those of the broken ring, or make
// the processes do that themselves (package remotecall). To each process this looks as if
// its neighbour had died, and it recovers.

// shutdownSockets shuts down the connections of a process and its descendants that have
// an end at one of the listening addresses, and returns how many there were.
func shutdownSockets(pid int, listening map[netip.AddrPort]bool) (int, error) {
	pids, err := localpeer.Descendants(pid)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range pids {
		k, err := shutdownProcess(p, listening)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func shutdownProcess(pid int, listening map[netip.AddrPort]bool) (int, error) {
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
	fds, err := descriptorsOf(pid, inodes)
	if err != nil || len(fds) == 0 {
		return 0, err
	}
	n, err := takeAndShutdown(pid, fds)
	if err == nil {
		return n, nil
	}
	more, callErr := remotecall.Shutdown(pid, fds[n:])
	if callErr != nil {
		return n, fmt.Errorf("%w; %w", err, callErr)
	}
	return n + more, nil
}

// descriptorsOf returns a process's descriptors of the sockets with these inodes.
func descriptorsOf(pid int, inodes map[string]bool) ([]int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, e := range entries {
		link, err := os.Readlink(dir + "/" + e.Name())
		if err != nil || !inodes[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] {
			continue
		}
		if num, err := strconv.Atoi(e.Name()); err == nil {
			fds = append(fds, num)
		}
	}
	return fds, nil
}

// takeAndShutdown duplicates sockets of a process into this one and shuts them down. It
// fails if the kernel forbids that.
func takeAndShutdown(pid int, fds []int) (n int, err error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("pidfd_open: %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	for _, num := range fds {
		fd, err := unix.PidfdGetfd(pidfd, num, 0)
		if err != nil {
			return n, fmt.Errorf("pidfd_getfd: %w", err)
		}
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // fails if the peer was faster
		_ = unix.Close(fd)
		n++
	}
	return n, nil
}

// matchSockets reads a table in the format of /proc/net/tcp and adds the inodes of
// established connections with an end at a listening address.
func matchSockets(r io.Reader, listening map[netip.AddrPort]bool, inodes map[string]bool) {
	for s := range localpeer.Table(r) {
		if s.State == localpeer.Established && (listening[s.Local] || listening[s.Remote]) {
			inodes[strconv.FormatUint(s.Inode, 10)] = true
		}
	}
}
