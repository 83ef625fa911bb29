// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// Peer is the process that was at the other end when a connection was made.
type Peer struct {
	UID, GID, PID int
}

func (p Peer) String() string { return fmt.Sprintf("uid=%d pid=%d", p.UID, p.PID) }

// PeerOf returns the process at the other end of a Unix connection, as reported by
// the kernel.
func PeerOf(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("%T is no connection of a Unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer of a Unix socket: %w", err)
	}
	var peer Peer
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = credentials(int(fd)) }); err != nil {
		failed = err
	}
	if failed != nil {
		return Peer{}, fmt.Errorf("peer of a Unix socket: %w", failed)
	}
	return peer, nil
}

// Gate decides who may use a socket: root, one user, and optionally the members of
// a group.
type Gate struct {
	UID   int
	Group *user.Group
}

// Admit returns an error with a remedy if the peer may not use the socket.
func (g Gate) Admit(p Peer) error {
	if p.UID == 0 || p.UID == g.UID || g.member(p) {
		return nil
	}
	text := fmt.Sprintf("this socket is for root and for uid %d, and the caller is uid %d", g.UID, p.UID)
	if g.Group != nil {
		return fmt.Errorf("%s, not in the group %s", text, g.Group.Name)
	}
	return fmt.Errorf("%s; http { unix_group } lets a group in", text)
}

// member reports whether a peer is a member of the group. It also asks the user
// database, because the kernel reports only the primary group.
func (g Gate) member(p Peer) bool {
	if g.Group == nil {
		return false
	}
	if strconv.Itoa(p.GID) == g.Group.Gid {
		return true
	}
	u, err := user.LookupId(strconv.Itoa(p.UID))
	if err != nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.Contains(ids, g.Group.Gid)
}

// owner returns the UID of a file's owner, or -1 if the system does not report it.
func owner(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
