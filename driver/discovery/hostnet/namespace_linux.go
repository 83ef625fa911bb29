// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostnet

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/sandbox/ownthread"
)

// Inside runs f on a thread of its own, in the network namespace that is mounted at path.
func Inside(path string, f func() error) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer func() { _ = unix.Close(ns) }()
	return ownthread.Do(func() error {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("network namespace %s: %w", path, err)
		}
		return f()
	})
}

// Network describes a network namespace.
type Network struct {
	// Interfaces are the names of its interfaces.
	Interfaces []string
	// Loopback states whether processes can reach each other at 127.0.0.1.
	Loopback bool
	// Address is the first address at which others may reach the namespace, IPv4 preferred.
	// It is empty if there is none.
	Address string
}

// Look returns a description of the calling thread's network namespace.
func Look() (*Network, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	n := &Network{}
	var six string
	for _, i := range all {
		n.Interfaces = append(n.Interfaces, i.Name)
		up := i.Flags&net.FlagUp != 0
		if i.Flags&net.FlagLoopback != 0 {
			n.Loopback = n.Loopback || up
			continue
		}
		addresses, err := i.Addrs()
		if err != nil || !up {
			continue
		}
		for _, a := range addresses {
			at, ok := a.(*net.IPNet)
			switch {
			case !ok || !at.IP.IsGlobalUnicast():
			case at.IP.To4() != nil && n.Address == "":
				n.Address = at.IP.String()
			case six == "":
				six = at.IP.String()
			}
		}
	}
	if n.Address == "" {
		n.Address = six
	}
	return n, nil
}
