// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/helper"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
)

// checkNetwork refuses network namespaces. In a bridge only the group's own ports
// are mapped, and the processes of a ring listen at ports that Gloo picks.
func checkNetwork(p *problems, s *hostEnvironment) {
	if s.ownNetwork {
		p.addf(`network mode: the group has a network of its own ("bridge", "none" or "cni/…"), across which no ring can form, because its processes listen at ports of their own choice; set mode = "host" in the group's network block, or leave mode out`)
	}
}

func checkService(p *problems, label string, a *agentconfig.Config, s *hostEnvironment) {
	if a.Service == "" {
		p.addf(`service: is not set; add a service block with provider = "nomad" and a port to the group, and set service to its name: agents find each other by it`)
	}
	var port string
	switch labels := portLabels(s.env); {
	case label != "":
		if port = s.env[helper.CleanEnvVar("NOMAD_PORT_"+label, '_')]; port == "" {
			p.addf("port = %q: the group has no port with this label%s", label, listed(labels))
			return
		}
	case len(labels) == 0:
		p.addf(`port: the group reserves none; add network { port "kolo" {} } to the group and port = "kolo" to its service block`)
		return
	case len(labels) == 1:
		port = s.env["NOMAD_PORT_"+labels[0]]
	default:
		if port = s.env["NOMAD_PORT_kolo"]; port == "" {
			p.addf(`port: the group has several and none is labelled "kolo"; set port to the label of the service's port%s`, listed(labels))
			return
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		p.addf("port: Nomad gave %q as its number; expected 1 to 65535", port)
		return
	}
	// Without an address Go listens for both families, or for IPv4 alone where
	// the machine has no IPv6. The service may have an address of either.
	a.Listen = ":" + port
}

// portLabels lists the group's ports as they appear in variable names.
func portLabels(env map[string]string) []string {
	var labels []string
	for key := range env {
		if label, ok := strings.CutPrefix(key, "NOMAD_PORT_"); ok {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}

func listed(names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	return "; there are: " + strings.Join(names, ", ")
}

func checkInterface(p *problems, a *agentconfig.Config, s *hostEnvironment) {
	where := "interface"
	if a.Interface == "" {
		a.Interface, where = s.plugin.Interface, "interface (of "+s.plugin.block+")"
	}
	if a.Interface == "" {
		return
	}
	names, err := s.interfaces()
	if err != nil {
		p.addf("%s = %q: cannot list the interfaces that the task sees: %v", where, a.Interface, err)
		return
	}
	if !slices.Contains(names, a.Interface) {
		p.addf("%s = %q: no such network interface%s", where, a.Interface, listed(names))
	}
}
