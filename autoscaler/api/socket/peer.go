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

// Peer is the process at the other end of a connection when that was made.
type Peer struct {
	UID, GID, PID int
}

func (p Peer) String() string { return fmt.Sprintf("uid=%d pid=%d", p.UID, p.PID) }

// PeerOf returns the process at the other end of a Unix connection, as the kernel
// knows it.
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

// Gate is who may use a socket: root, one user, and the members of one group if
// there is one.
type Gate struct {
	UID   int
	Group *user.Group
}

// Admit returns an error for a peer that may not, with the remedy.
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

// member asks the user database, too: the kernel names the primary group only.
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

// owner is the user a file belongs to, -1 where the system does not report it.
func owner(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
