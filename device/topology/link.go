// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"fmt"
	"strconv"
)

// Path is how two GPUs are connected without NVLink, from far to close.
// The names are those of nvidia-smi topo.
type Path int

// The paths, ordered: a greater one is closer.
const (
	// PathUnknown is a pair whose path the driver does not report.
	PathUnknown Path = iota
	// PathSYS crosses from one NUMA node to another.
	PathSYS
	// PathNODE crosses from one PCIe host bridge to another of the same NUMA
	// node.
	PathNODE
	// PathPHB goes over one PCIe host bridge, which usually is the CPU.
	PathPHB
	// PathPXB goes over several PCIe switches and no host bridge.
	PathPXB
	// PathPIX goes over one PCIe switch at most.
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

// Link is what connects two GPUs.
type Link struct {
	// Path is the path over PCIe. A pair with NVLinks has one too.
	Path Path
	// NVLinks is how many NVLinks the pair can use at once; 0 is none.
	NVLinks int
	// Switched is true when the NVLinks go through NVSwitch, so that the pair
	// shares them with every other pair of its fabric.
	Switched bool
	// MBps is what the NVLinks carry in one direction, in MB/s; 0 where the
	// driver does not report it.
	MBps int
	// Peer is true when each of the two can read and write the other's memory.
	Peer bool
}

// maxNVLinks bounds what is read from text. Today's GPUs have 18.
const maxNVLinks = 1024

// String returns the name in the link matrix: NV and the number of links, with
// an s behind it when they go through NVSwitch, else the path.
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

// parseLink reads what [Link.String] wrote. Only the fields that the text
// carries are set.
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
