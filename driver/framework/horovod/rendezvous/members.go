// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"fmt"
	"strconv"
)

// Slot is one member of a generation.
type Slot struct {
	// Host is the slot's HOROVOD_HOSTNAME.
	Host string
	Assignment
}

// Members are the members of a generation as one agent sees them.
type Members struct {
	// Slots holds every member of the ring; Slots[i].Rank is i.
	Slots []Slot
	// Local are the ranks whose processes run on this agent's host.
	Local []int
	// Meshes is how many meshes an initialisation of this Horovod builds: 6 since
	// 0.23, 3 before, 0 if not known yet. Pass the next generation the number that
	// Store.Meshes has learned.
	Meshes int
}

// validate returns an error for members that would make scopes wait forever.
func (m Members) validate() error {
	if m.Meshes != 0 && m.Meshes != 3 && m.Meshes != 6 {
		return fmt.Errorf("%d meshes: must be 0, 3 or 6", m.Meshes)
	}
	local, cross, position := map[string]int{}, map[int]int{}, map[int]int{}
	for i, s := range m.Slots {
		if s.Rank != i || s.Size != len(m.Slots) {
			return fmt.Errorf("slot %d of %d has rank %d of %d", i, len(m.Slots), s.Rank, s.Size)
		}
		if err := s.Valid(); err != nil {
			return fmt.Errorf("slot %d: %w", i, err)
		}
		if at, ok := position[s.LocalRank]; ok && at != local[s.Host] {
			return fmt.Errorf("slot %d: local rank %d stands at %d by rank on host %q, at %d on another: process sets cannot form",
				i, s.LocalRank, local[s.Host], s.Host, at)
		}
		position[s.LocalRank] = local[s.Host]
		local[s.Host]++
		cross[s.LocalRank]++
	}
	for i, s := range m.Slots {
		if local[s.Host] != s.LocalSize {
			return fmt.Errorf("slot %d: local size %d, but host %q has %d slots", i, s.LocalSize, s.Host, local[s.Host])
		}
		if cross[s.LocalRank] != s.CrossSize {
			return fmt.Errorf("slot %d: cross size %d, but %d slots have local rank %d", i, s.CrossSize, cross[s.LocalRank], s.LocalRank)
		}
	}
	seen := map[int]bool{}
	for _, r := range m.Local {
		if r < 0 || r >= len(m.Slots) || seen[r] {
			return fmt.Errorf("local rank list %v: %d is repeated or not in the ring", m.Local, r)
		}
		seen[r] = true
	}
	return nil
}

// The three kinds of standard mesh. A kind plus three is the same mesh of process
// set 0, so that a stage number orders all six.
const (
	stageGlobal = iota
	stageLocal
	stageCross
	meshKinds
)

const (
	scopeGlobal = "global"
	prefixLocal = "local_"
	prefixCross = "cross_"
	// infixSet stands between a mesh's name and the hash of its process set.
	infixSet = "_process_set_hash_"
)

// part is a slot's part in one standard mesh.
type part struct {
	stage int
	// index is the slot's number within the mesh, size the mesh's size.
	index, size int
	// locals is the number of members on this agent's host.
	locals int
}

// key returns the slot's own key in that mesh.
func (p part) key() string { return strconv.Itoa(p.index) }

// mesh returns a slot's standard mesh of one kind. The meshes of process set 0 use
// the slot's position on its host in rank order where the others use its local rank
// (GlooContext::InitializeForProcessSet in horovod/common/gloo/gloo_context.cc).
func (m Members) mesh(s Slot, kind int, set bool) (name string, index, size int) {
	local := s.LocalRank
	if set {
		local = m.position(s)
	}
	switch kind {
	case stageGlobal:
		return scopeGlobal, s.Rank, s.Size
	case stageLocal:
		return prefixLocal + s.Host, local, s.LocalSize
	default:
		return prefixCross + strconv.Itoa(local), s.CrossRank, s.CrossSize
	}
}

// position returns the number of slots on the same host with lower ranks.
func (m Members) position(s Slot) int {
	n := 0
	for _, o := range m.Slots[:s.Rank] {
		if o.Host == s.Host {
			n++
		}
	}
	return n
}

// parts returns a slot's parts by the scope's name without process set: with set
// those in the meshes of process set 0, otherwise those in the meshes of all.
func (m Members) parts(s Slot, set bool) map[string]part {
	out := make(map[string]part, meshKinds)
	for kind := range meshKinds {
		name, index, size := m.mesh(s, kind, set)
		p := part{stage: kind, index: index, size: size}
		if set {
			p.stage += meshKinds
		}
		for _, r := range m.Local {
			if other, _, _ := m.mesh(m.Slots[r], kind, set); other == name {
				p.locals++
			}
		}
		out[name] = p
	}
	return out
}
