// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inventory

import (
	"cmp"
	"fmt"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/topology"
)

// Unit is a device that a task can get: a whole GPU, or a MIG instance of one. It
// is immutable.
type Unit struct {
	// GPU holds the facts of the GPU, or of the GPU that the instance is part of.
	GPU *nvml.Facts
	// Instance is nil for a whole GPU.
	Instance *nvml.Instance
	// Number is NVML's index of the GPU.
	Number int
}

// ID returns the UUID.
func (u Unit) ID() string {
	if u.Instance != nil {
		return u.Instance.UUID
	}
	return u.GPU.UUID
}

// Product returns the product's name without a locality, as in nomad-device-nvidia.
func (u Unit) Product() string {
	if u.Instance != nil {
		return u.Instance.Name
	}
	return u.GPU.Name
}

// MemoryMiB returns the memory of the unit, nil if unknown.
func (u Unit) MemoryMiB() *uint64 {
	if u.Instance != nil {
		return u.Instance.MemoryMiB
	}
	return u.GPU.MemoryMiB
}

// NVLinks returns the number of links that are up, their total bandwidth, and
// whether they end at NVSwitch. MIG instances cannot use NVLink.
func (u Unit) NVLinks() (links, mbps int, switched bool) {
	if u.Instance != nil {
		return 0, 0, false
	}
	for _, p := range u.GPU.Ports {
		mbps += p.MBps
		switched = switched || p.Switch
	}
	return len(u.GPU.Ports), mbps, switched
}

// islandKey identifies a member of an island: a whole GPU, or all MIG instances of
// one GPU together, because they are one GPU.
func (u Unit) islandKey() string {
	if u.Instance != nil {
		return "MIG of " + u.GPU.UUID
	}
	return u.GPU.UUID
}

// switchKey identifies the unit's PCIe switch, otherwise the root, otherwise the
// GPU itself.
func (u Unit) switchKey() string {
	return cmp.Or(u.GPU.Switch, u.GPU.Root, u.GPU.Bus)
}

// units returns what tasks can get, in the order of PCI addresses.
func (inv *Inventory) units() []Unit {
	var all []Unit
	for _, g := range inv.GPUs {
		if !g.Facts.MIG {
			all = append(all, Unit{GPU: &g.Facts, Number: g.Index})
			continue
		}
		for i := range g.Facts.Instances {
			all = append(all, Unit{GPU: &g.Facts, Instance: &g.Facts.Instances[i], Number: g.Index})
		}
	}
	return all
}

// matrix returns the links between the units. MIG instances have no NVLink; those
// of one GPU are as close as PCIe allows.
func (inv *Inventory) matrix(units []Unit) *topology.Matrix {
	gpus := make([]topology.GPU, len(units))
	for i, u := range units {
		gpus[i].Bus = u.GPU.Bus
		if u.Instance != nil {
			continue
		}
		gpus[i].Ports = u.GPU.Ports
		if f := u.GPU.Fabric; f != nil && f.Ready {
			gpus[i].Fabric = fmt.Sprintf("%s/%d", f.Cluster, f.Clique)
		}
	}
	return topology.New(gpus, func(i, j int) topology.Pair {
		a, b := units[i], units[j]
		if a.GPU.UUID == b.GPU.UUID {
			return topology.Pair{Path: topology.PathPIX, NoNVLink: true}
		}
		p := inv.pairs[[2]string{a.GPU.UUID, b.GPU.UUID}]
		if a.Instance != nil || b.Instance != nil {
			p.NoNVLink, p.Peer = true, false
		}
		return p
	})
}
