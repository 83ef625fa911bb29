// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// groupNetwork is a network namespace that the tasks of one group share.
type groupNetwork struct {
	hostnet.Network

	// bridge states that it is of Nomad's mode "bridge".
	bridge bool
	// err is why it can't be inspected.
	err error
}

// cniResults is where CNI's library records the networks that it has set up: a file for
// each network, container and interface.
const cniResults = "/var/lib/cni/results"

// bridgeName is the name there of Nomad's own network, of mode "bridge".
const bridgeName = "nomad"

// networkOf inspects a task's network. It returns nil if that is the client's.
func networkOf(c *drivers.TaskConfig) *groupNetwork {
	if c.NetworkIsolation == nil {
		return nil
	}
	n := &groupNetwork{bridge: ofBridge(cniResults, c.AllocID)}
	n.err = hostnet.Inside(c.NetworkIsolation.Path, func() error {
		found, err := hostnet.Look()
		if err == nil {
			n.Network = *found
		}
		return err
	})
	return n
}

// ofBridge reports whether an allocation is in Nomad's bridge. The driver's own
// configuration does not tell: "bridge" and "cni/…" both look like a network of the group.
func ofBridge(results, alloc string) bool {
	found, err := filepath.Glob(filepath.Join(results, bridgeName+"-"+alloc+"-*"))
	return err == nil && len(found) > 0
}

// checkNetwork refuses networks in which no ring forms.
func checkNetwork(p *problem.List, s *hostEnvironment) {
	n := s.network
	const field, instead = "network.mode", `use "host", or a CNI network in which clients reach each other's allocations ("cni/<name>")`
	switch {
	case n == nil:
	case n.err != nil:
		p.Add(field, nil, fmt.Sprintf("the group's network can't be looked at: %v", n.err), "")
	case n.bridge:
		p.Add(field, "bridge", "the addresses behind Nomad's bridge are the client's alone, and other clients reach only the ports that are mapped, while processes of a ring listen at ports of their own choice", instead)
	case n.Address == "":
		p.Add(field, nil, `the group's network has no address at which others reach it, as with "none"`, instead)
	case !n.Loopback:
		p.Add(field, nil, "the group's network has no loopback interface that is up, by which the processes of a task talk to their agent", `add { "type": "loopback" } to the plugins of the CNI configuration`)
	}
}

// serviceAddress returns the address, with its port, at which other agents find a task's
// agent.
func (e *environment) serviceAddress() (string, error) {
	_, address, err := taskconfig.ServiceAddress(e.task.Env, e.plan.agent.Listen)
	if err != nil || e.network == nil {
		return address, err
	}
	_, port, err := net.SplitHostPort(e.plan.agent.Listen)
	return net.JoinHostPort(e.network.Address, port), err
}
