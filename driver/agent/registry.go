// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// registerWait is how long the agent waits to find itself in the registry.
const registerWait = 60 * time.Second

// registerUsual is the time within which Nomad usually registers an allocation. A longer
// wait is reported.
const registerUsual = 10 * time.Second

// portError explains why listening on the service's port failed.
func portError(listen string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the service port can't be used: %w; another process of this node holds it: leave out the port's static = …, "+
			"so that Nomad picks a free one, or list the port in the client's reserved_ports", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("the service port can't be used: %w; this node has no address %s: see network_interface and host_network "+
			"in the client's configuration", err, listen)
	}
	return fmt.Errorf("the service port can't be used: %w", err)
}

// findSelf waits until Nomad's registry shows this allocation. From then on others can
// find it, and its address is known.
func (a *agent) findSelf(ctx context.Context, r registry.Registry, signals <-chan os.Signal) (registry.Peer, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, registerWait)
	defer cancel()
	views := r.Watch(ctx)
	late := time.NewTimer(registerUsual)
	defer late.Stop()
	var last registry.View
	reported := false
	for {
		select {
		case v, ok := <-views:
			if !ok {
				if last.Err != nil {
					return registry.Peer{}, false, last.Err
				}
				return registry.Peer{}, false, a.unregistered(registerWait)
			}
			last = v
			if p, ok := v.Find(a.config.AllocID); ok && v.Err == nil {
				p.Group, p.Index = a.config.Group, a.config.Index
				return p, false, nil
			}
			if v.Err != nil && !reported {
				reported = true
				a.events.Emit(fmt.Sprintf("waiting for the service registry: %v", v.Err))
			}
		case <-late.C:
			if last.Err == nil && !last.At.IsZero() {
				a.events.Warn(a.unregistered(registerUsual).Error())
			}
		case s := <-signals:
			if a.stops(s) {
				return registry.Peer{}, true, nil
			}
		}
	}
}

// unregistered returns an error that explains why others don't find this allocation.
func (a *agent) unregistered(after time.Duration) error {
	return fmt.Errorf("service %q: this allocation is not registered after %s; the group needs "+
		"service { name = %q  provider = \"nomad\"  port = <the port's label> }", a.config.Service, after, a.config.Service)
}

// chooseInterface returns the network interface for training traffic: the configured one,
// else the one that has the address at which others find this host.
func (a *agent) chooseInterface(addr string) string {
	if a.config.Interface != "" {
		return a.config.Interface
	}
	host, _, _ := net.SplitHostPort(addr)
	name, err := hostnet.InterfaceOf(net.ParseIP(host))
	if err != nil {
		a.log.Warn(a.framework.Elastic.Name+" chooses the network interface itself; set interface in the task's config if it chooses wrong", "address", host, "error", err)
	}
	return name
}

// checkAddress returns an error if the group has a network of its own and the service
// address is the client's. The processes of a ring choose their ports, which are not mapped
// to the client's address.
func (a *agent) checkAddress(addr string) error {
	if !a.config.OwnNetwork {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("service %q: its address %q: %w", a.config.Service, addr, err)
	}
	if _, err := hostnet.InterfaceOf(net.ParseIP(host)); err != nil {
		return fmt.Errorf("service %q: is registered at %s, and %w of the group's own network; write address_mode = \"alloc\" in the service block", a.config.Service, addr, err)
	}
	return nil
}

// present reports whether an allocation is registered, and whether the view is
// newer than a time.
func (a *agent) present(alloc string, after time.Time) (present, fresh bool) {
	view := a.registry.Latest()
	present = alloc != "" && slices.ContainsFunc(view.Peers, func(p registry.Peer) bool { return strings.HasPrefix(p.AllocID, alloc) })
	return present, view.At.After(after)
}

// address returns the address of an allocation in the registry, or "".
func (a *agent) address(alloc string) string {
	peers := a.registry.Latest().Peers
	at := slices.IndexFunc(peers, func(p registry.Peer) bool { return strings.HasPrefix(p.AllocID, alloc) })
	if at < 0 || alloc == "" {
		return ""
	}
	return peers[at].Addr
}

// peers returns how many agents the registry names.
func (a *agent) peers() int { return len(a.registry.Latest().Peers) }

// lastHost reports whether the registry names no agent of the job.
func (a *agent) lastHost() bool {
	view := a.registry.Latest()
	return view.Err == nil && len(view.Peers) == 0
}
