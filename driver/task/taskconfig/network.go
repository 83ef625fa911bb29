// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

func checkService(p *problem.List, label string, a *config.Config, s *Surroundings) {
	if a.Service == "" {
		p.Add("config.service", nil, "is not set", `add a service block with provider = "nomad" and a port to the group, and set service to its name: agents find each other by it`)
	}
	const field = "config.port"
	var variable string
	switch labels := portLabels(s.Env); {
	case label != "":
		if variable = portVariable(label); s.Env[variable] == "" {
			p.Add(field, label, "the group has no port with this label", listed(labels))
			return
		}
	case len(labels) == 0:
		p.Add(field, nil, "the group reserves none", `add network { port "kolo" {} } to the group and port = "kolo" to its service block`)
		return
	case len(labels) == 1:
		variable = "NOMAD_PORT_" + labels[0]
	default:
		if variable = "NOMAD_PORT_kolo"; s.Env[variable] == "" {
			p.Add(field, nil, `the group has several and none is labelled "kolo"`, "set port to the label of the service's port; "+listed(labels))
			return
		}
	}
	port := s.Env[variable]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		p.Add(field, nil, fmt.Sprintf("Nomad gave %q as its number", port), "expected 1 to 65535")
		return
	}
	name := strings.TrimPrefix(variable, "NOMAD_PORT_")
	if onClient := s.Env["NOMAD_HOST_PORT_"+name]; onClient != "" && onClient != port && !s.OwnNetwork {
		p.Add(field, nil, fmt.Sprintf("port %q is %s on the client and %s in the task, and the task must be in the client's network, where others call the first", name, onClient, port), "remove to from the group's port block")
	}
	// Without an address Go listens for both families, or only for IPv4 if the machine has
	// no IPv6. The service may have an address of either family.
	a.Listen = ":" + port
	a.OwnNetwork = s.OwnNetwork
}

// portVariable returns the variable with a port's number. Nomad replaces characters that a
// variable's name may not have (nomad/helper, CleanEnvVar).
func portVariable(label string) string {
	return "NOMAD_PORT_" + strings.Map(func(r rune) rune {
		switch {
		case r == '_', r == '.', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, label)
}

// portLabels returns the labels of the group's ports as they appear in variable names.
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
		return "there are none"
	}
	return "there are: " + strings.Join(names, ", ")
}

func checkInterface(p *problem.List, a *config.Config, s *Surroundings) {
	field := "config.interface"
	if a.Interface == "" {
		a.Interface, field = s.Interface, s.InterfaceOf+": "+field
	}
	if a.Interface == "" {
		return
	}
	names, err := s.Interfaces()
	if err != nil {
		p.Add(field, a.Interface, fmt.Sprintf("cannot list the interfaces that the task sees: %v", err), "")
		return
	}
	if !slices.Contains(names, a.Interface) {
		p.Add(field, a.Interface, "no such network interface", listed(names))
	}
}

// ServiceAddress returns the label of the service's port and the address of the service,
// which listens at listen. Both are empty if no variable names this port.
func ServiceAddress(env map[string]string, listen string) (label, address string, err error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", "", fmt.Errorf("service port: %w", err)
	}
	for _, name := range portLabels(env) {
		// The address contains the client's port, which may be mapped to the task's.
		if at := env["NOMAD_ADDR_"+name]; at != "" && env["NOMAD_PORT_"+name] == port {
			label, address = name, at
		}
	}
	return label, address, nil
}
