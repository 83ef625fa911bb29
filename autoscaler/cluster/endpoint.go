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

// Endpoint is where an allocation of a job answers. The zero Endpoint is none.
type Endpoint struct {
	Alloc   string
	Address netip.AddrPort
}

// wirePlace is the part of an allocation in Nomad's JSON with its addresses.
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

// endpoint is the address at which an instance of a job's service may be asked:
// an address of its node with a port that Nomad reserved for its allocation.
// The address in the registry may be any, for a service block may name one
// (address, address_mode); only the port is taken from there.
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
		return Endpoint{}, fmt.Errorf("port %d of allocation %s is none that Nomad reserved for it; write the label of a port in the service", r.Port, r.AllocID)
	}
	return Endpoint{Alloc: a.ID, Address: address}, nil
}

// reserved is the address of the node at which the allocation holds a port.
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

// askable reports whether an address may be one at which a node has workers. Clouds
// answer for their machines at link-local addresses, with credentials.
func askable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && !awsMetadata.Contains(ip)
}

// awsMetadata is where Amazon has the same in IPv6, in addition to the link-local one.
var awsMetadata = netip.MustParsePrefix("fd00:ec2::/32")

// Answers reports whether an endpoint that answered may be asked again without a
// look-up: as far as is known its allocation is of the job, and has not ended.
func (w *Watcher) Answers(key identity.JobKey, e Endpoint) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	a := w.store.allocs[e.Alloc]
	return a != nil && a.job == key && !a.over && !a.ending
}
