// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
)

// Connections returns the established connections of the task's processes with one end at a
// listening address, as these processes see them. It reads the list of all connections in
// this network namespace once. It fails if the task's own connections cannot be
// distinguished from others.
func (t *Task) Connections(listening map[netip.AddrPort]bool) ([]Socket, error) {
	t.once.Do(t.begin)
	sockets, err := t.established()
	if err != nil {
		return nil, err
	}
	// The kernel assigns an accepted socket to the cgroup of its listener.
	sockets = slices.DeleteFunc(sockets, func(s Socket) bool {
		return s.State != Established || !listening[s.Local] && !listening[s.Remote] || t.cgroup != 0 && s.Cgroup != t.cgroup
	})
	if len(sockets) == 0 || t.cgroup != 0 {
		return sockets, nil
	}
	return t.held(sockets)
}

// established returns the connections of this network namespace. If the kernel refuses to
// list them and the task has no cgroup to compare, it reads the whole table of sockets
// instead.
func (t *Task) established() ([]Socket, error) {
	if !t.tabled {
		sockets, err := t.kernel.established()
		if err == nil || t.cgroup != 0 {
			return sockets, err
		}
	}
	all, err := t.tables.do(table)
	return slices.Collect(maps.Values(all)), err
}

// held returns those sockets that a process of the task has open.
func (t *Task) held(sockets []Socket) ([]Socket, error) {
	found, err := t.scans.do(scanTask)
	if err != nil {
		return nil, fmt.Errorf("the task's processes cannot be listed: %w", err)
	}
	var own []Socket
	for _, s := range sockets {
		_, ok := found.sockets[s.Inode]
		user := os.Geteuid()
		switch {
		case ok && s.Inode != 0:
			own = append(own, s)
		case len(found.hidden) > 0 && s.Inode != 0 && (user == 0 || int64(s.UID) == int64(user)):
			return nil, fmt.Errorf("/proc/<pid>/fd of the task's processes %v cannot be read: a process of a slot must run as the task's user "+
				"and be dumpable", found.hidden)
		}
	}
	return own, nil
}

// Describe names the process at one end of a connection in this network namespace: its
// user, its ID and command, and its Nomad allocation, as far as the caller may see these.
// The result is empty if there is no such connection. Describe searches all processes, so
// it is slow.
func (t *Task) Describe(local, remote netip.AddrPort) string {
	t.once.Do(t.begin)
	s, err := t.find(local, remote)
	if err != nil {
		return ""
	}
	who := fmt.Sprintf("user %d", s.UID)
	pid, command := holder(s.Inode)
	if pid == 0 {
		return who
	}
	who += fmt.Sprintf(", process %d (%s)", pid, command)
	if alloc := allocation(pid); alloc != "" {
		who += ", allocation " + alloc
	}
	return who
}
