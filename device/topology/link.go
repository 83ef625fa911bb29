// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"strconv"
)

// Path is the connection over PCIe between two GPUs. The names are the same as in
// nvidia-smi topo.
type Path int

// The paths in order, from far to close: a greater one is closer.
const (
	// PathUnknown means that the driver does not report the path.
	PathUnknown Path = iota
	// PathSYS crosses from one NUMA node to another.
	PathSYS
	// PathNODE crosses from one PCIe host bridge to another on the same NUMA node.
	PathNODE
	// PathPHB crosses one PCIe host bridge, which usually is the CPU.
	PathPHB
	// PathPXB crosses several PCIe switches and no host bridge.
	PathPXB
	// PathPIX crosses at most one PCIe switch.
	PathPIX
)

var pathNames = [...]string{"?", "SYS", "NODE", "PHB", "PXB", "PIX"}

// String returns the name that nvidia-smi uses, or ? for an unknown path.
func (p Path) String() string {
	if p < 0 || int(p) >= len(pathNames) {
		return pathNames[PathUnknown]
	}
	return pathNames[p]
}

// Link is the connection between two GPUs.
type Link struct {
	// Path is the path over PCIe. A pair with NVLinks has one, too.
	Path Path
	// NVLinks is how many NVLinks the pair can use at once; 0 if none.
	NVLinks int
	// Switched states that the NVLinks go through NVSwitch, so that the pair shares
	// them with every other pair of its fabric.
	Switched bool
	// MBps is the bandwidth of the NVLinks in one direction, in MB/s; 0 if the
	// driver does not report it.
	MBps int
	// Peer states that each of the two can read and write the other's memory.
	Peer bool
}

// maxNVLinks bounds the number that parseLink accepts. Today's GPUs have 18.
const maxNVLinks = 1024

// String returns the name in the link matrix: NV and the number of links, followed
// by an s if they go through NVSwitch. Without NVLinks it returns the path.
func (l Link) String() string {
	switch {
	case l.NVLinks > 0 && l.Switched:
		return "NV" + strconv.Itoa(l.NVLinks) + "s"
	case l.NVLinks > 0:
		return "NV" + strconv.Itoa(l.NVLinks)
	default:
		return l.Path.String()
	}
}

// parseLink reads the output of [Link.String]. It sets only the fields that the
// text contains.
func parseLink(s string) (Link, error) {
	for p, name := range pathNames {
		if s == name {
			return Link{Path: Path(p)}, nil
		}
	}
	if len(s) < 3 || s[:2] != "NV" {
		return Link{}, fmt.Errorf("link %q is neither a path nor NV<count>", s)
	}
	digits, switched := s[2:], false
	if digits[len(digits)-1] == 's' {
		digits, switched = digits[:len(digits)-1], true
	}
	n, err := count(digits)
	if err != nil || n < 1 || n > maxNVLinks {
		return Link{}, fmt.Errorf("link %q: the number of NVLinks must be in 1..%d", s, maxNVLinks)
	}
	return Link{NVLinks: n, Switched: switched}, nil
}
