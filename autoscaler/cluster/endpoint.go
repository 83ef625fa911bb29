// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Endpoint is an allocation of a job and the address at which it answers probes. The zero
// Endpoint means that no address is known.
type Endpoint struct {
	Alloc   string
	Address netip.AddrPort
}

// wirePlace is the part of an allocation in Nomad's JSON that holds its addresses.
type wirePlace struct {
	ID, Namespace, JobID        string
	DesiredStatus, ClientStatus string
	AllocatedResources          *struct {
		Shared struct {
			Networks []wireNetwork
			Ports    []struct {
				Value  int
				HostIP string
			}
		}
		Tasks map[string]struct{ Networks []wireNetwork }
	}
}

type wireNetwork struct {
	IP                          string
	ReservedPorts, DynamicPorts []struct{ Value int }
}

// endpoint returns the address at which to probe an instance of a job's service: an
// address of the instance's node, with a port that Nomad reserved for its allocation.
// Only the port comes from the registry. The address there may be any, because a
// service block can set it (address, address_mode).
func (p *Prober) endpoint(ctx context.Context, key identity.JobKey, r *api.ServiceRegistration) (Endpoint, error) {
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	var a wirePlace
	if _, err := p.client.Raw().Query("/v1/allocation/"+escape(r.AllocID), &a, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx)); err != nil {
		return Endpoint{}, fmt.Errorf("reading allocation %s: %w", r.AllocID, err)
	}
	switch {
	case a.ID != r.AllocID || a.Namespace != key.Namespace || a.JobID != key.ID:
		return Endpoint{}, fmt.Errorf("allocation %s is not of job %s", r.AllocID, key)
	case ended(a.ClientStatus) || a.DesiredStatus != api.AllocDesiredStatusRun:
		return Endpoint{}, fmt.Errorf("allocation %s is ending", r.AllocID)
	}
	address, ok := a.reserved(r.Port)
	if !ok {
		return Endpoint{}, fmt.Errorf("port %d is not reserved for allocation %s; write the label of a port in the service", r.Port, r.AllocID)
	}
	return Endpoint{Alloc: a.ID, Address: address}, nil
}

// reserved returns the node's address at which the allocation holds the port.
func (a *wirePlace) reserved(port int) (netip.AddrPort, bool) {
	r := a.AllocatedResources
	if r == nil || port < 1 || port > 1<<16-1 {
		return netip.AddrPort{}, false
	}
	var hosts []string
	for _, p := range r.Shared.Ports {
		if p.Value == port {
			hosts = append(hosts, p.HostIP)
		}
	}
	networks := slices.Clone(r.Shared.Networks)
	for _, t := range r.Tasks {
		networks = append(networks, t.Networks...)
	}
	for _, n := range networks {
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			if p.Value == port {
				hosts = append(hosts, n.IP)
			}
		}
	}
	for _, h := range hosts {
		if ip, err := netip.ParseAddr(h); err == nil && askable(ip.Unmap()) {
			return netip.AddrPortFrom(ip.Unmap(), uint16(port)), true
		}
	}
	return netip.AddrPort{}, false
}

// askable reports whether workers of a node may have the address. Link-local addresses
// are excluded, because clouds serve instance credentials there.
func askable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && !awsMetadata.Contains(ip)
}

// awsMetadata is Amazon's additional IPv6 range for the same purpose.
var awsMetadata = netip.MustParsePrefix("fd00:ec2::/32")

// Answers reports whether an endpoint that answered before may be probed again without a
// new lookup. It may if its allocation still belongs to the job and has not ended, as far
// as the Watcher knows.
func (w *Watcher) Answers(key identity.JobKey, e Endpoint) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	a := w.store.allocs[e.Alloc]
	return a != nil && a.job == key && !a.over && !a.ending
}
