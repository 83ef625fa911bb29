// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// GPU is a GPU that was read at least once.
type GPU struct {
	// Facts are the newest facts that could be read.
	Facts nvml.Facts
	// Index is NVML's number, which nvidia-smi -i accepts.
	Index int
	// Handle is the GPU's handle, nil while NVML provides none.
	Handle nvml.GPU
	// Err is the reason why the GPU does not answer, nil while it does.
	Err error
}

// Inventory is the result of reading all GPUs. It includes GPUs of the previous
// reading that have disappeared since.
type Inventory struct {
	Driver nvml.Driver
	// GPUs are ordered by PCI address.
	GPUs []*GPU
	// Listed is how many GPUs NVML lists, including ignored ones.
	Listed int
	// Unreadable holds the errors, by NVML's number, of GPUs that NVML lists but of
	// which not even the UUID could be read.
	Unreadable map[int]error
	// UnmatchedIgnores holds the IDs of the operator's ignore list that match no readable GPU.
	UnmatchedIgnores []string

	pairs map[[2]string]topology.Pair // by the UUIDs of both
}

// ErrUnlisted means that NVML no longer lists a GPU that was read before.
var ErrUnlisted = errors.New("NVML no longer lists the GPU")

// Read reads all GPUs except for the ignored ones. A GPU that fails does not
// prevent the others from being read: it keeps its facts of the previous reading,
// with the error. An error that Read returns concerns NVML as a whole; the
// inventory is then the previous one.
func Read(lib nvml.Library, before Inventory, ignored []string) (Inventory, error) {
	inv := Inventory{
		Unreadable: map[int]error{}, UnmatchedIgnores: slices.Clone(ignored),
		pairs: map[[2]string]topology.Pair{},
	}
	var err error
	if inv.Driver, err = lib.Driver(); err != nil {
		return before, err
	}
	if inv.Listed, err = lib.Count(); err != nil {
		return before, err
	}
	for i := range inv.Listed {
		g, err := readGPU(lib, i)
		switch {
		case err != nil && nvml.Unavailable(err):
			return before, err
		case err != nil:
			inv.Unreadable[i] = fmt.Errorf("GPU %d: %w", i, err)
		case inv.ignores(g.Facts.UUID):
		default:
			g.Facts.Instances = slices.DeleteFunc(g.Facts.Instances, func(in nvml.Instance) bool {
				return inv.ignores(in.UUID)
			})
			inv.GPUs = append(inv.GPUs, g)
		}
	}
	inv.keepMissing(before)
	slices.SortFunc(inv.GPUs, func(a, b *GPU) int {
		return cmp.Or(cmp.Compare(a.Facts.Bus, b.Facts.Bus), cmp.Compare(a.Facts.UUID, b.Facts.UUID))
	})
	return inv, inv.readPairs(lib, before)
}

func readGPU(lib nvml.Library, index int) (*GPU, error) {
	handle, err := lib.GPU(index)
	if err != nil {
		return nil, err
	}
	f, err := handle.Facts()
	if err != nil {
		return nil, err
	}
	return &GPU{Facts: f, Handle: handle, Index: index}, nil
}

// ignores reports whether an ID should be ignored, and records that a GPU has it.
func (inv *Inventory) ignores(id string) bool {
	before := len(inv.UnmatchedIgnores)
	inv.UnmatchedIgnores = slices.DeleteFunc(inv.UnmatchedIgnores, func(ignored string) bool { return ignored == id })
	return len(inv.UnmatchedIgnores) < before
}

// keepMissing adds the GPUs of the previous reading that this one lacks. A lost GPU
// fails before its UUID can be read, so NVML's number identifies it then.
func (inv *Inventory) keepMissing(before Inventory) {
	for _, old := range before.GPUs {
		if inv.find(old.Facts.UUID) != nil {
			continue
		}
		missing := &GPU{Facts: old.Facts, Err: ErrUnlisted, Index: old.Index}
		if err := inv.Unreadable[old.Index]; err != nil {
			missing.Err = err
		}
		inv.GPUs = append(inv.GPUs, missing)
	}
}

// find returns the GPU with the UUID, or nil.
func (inv *Inventory) find(uuid string) *GPU {
	i := slices.IndexFunc(inv.GPUs, func(g *GPU) bool { return g.Facts.UUID == uuid })
	if i < 0 {
		return nil
	}
	return inv.GPUs[i]
}

// readPairs reads how every two reachable GPUs are linked, unless nothing about the
// two has changed. For other pairs it keeps the known links. It reads a pair again
// if the pair has no peer access, or if the driver denies its NVLinks, because the
// fabric manager may have started since.
func (inv *Inventory) readPairs(lib nvml.Library, before Inventory) error {
	for i, a := range inv.GPUs {
		for _, b := range inv.GPUs[i+1:] {
			key := [2]string{a.Facts.UUID, b.Facts.UUID}
			p, known := before.pairs[key]
			if known {
				inv.pairs[key] = p
			}
			denied := p.NoNVLink && len(a.Facts.Ports) > 0 && len(b.Facts.Ports) > 0
			final := known && p.Peer && !denied && before.hasSameLinks(a) && before.hasSameLinks(b)
			if final || a.Handle == nil || b.Handle == nil {
				continue
			}
			p, err := lib.Pair(a.Handle, b.Handle)
			switch {
			case err != nil && nvml.Unavailable(err):
				return err
			case err == nil || !known:
				inv.pairs[key] = p
			}
			// Any other error is due to one of the two GPUs, whose own reading
			// fails too.
		}
	}
	return nil
}

// hasSameLinks reports whether a GPU was reachable and had the same links.
func (inv *Inventory) hasSameLinks(g *GPU) bool {
	old := inv.find(g.Facts.UUID)
	if old == nil || old.Handle == nil {
		return false
	}
	was, is := old.Facts, g.Facts
	return was.MIG == is.MIG && slices.Equal(was.Ports, is.Ports) && reflect.DeepEqual(was.Fabric, is.Fabric)
}

// Unidentified returns the number of GPUs that could never be read. Not even their
// UUID is known.
func (inv *Inventory) Unidentified() int {
	n := len(inv.Unreadable)
	for _, g := range inv.GPUs {
		if inv.Unreadable[g.Index] != nil {
			n--
		}
	}
	return n
}

// UnidentifiedAreIgnored reports whether the unidentified GPUs are probably GPUs
// that the operator ignores, perhaps because they are broken.
func (inv *Inventory) UnidentifiedAreIgnored() bool {
	return inv.Unidentified() <= len(inv.UnmatchedIgnores)
}

// Incomplete reports whether a GPU that was read before cannot be reached now.
func (inv *Inventory) Incomplete() bool {
	return len(inv.Unreadable) > 0 && !inv.UnidentifiedAreIgnored() ||
		slices.ContainsFunc(inv.GPUs, func(g *GPU) bool { return g.Handle == nil })
}
