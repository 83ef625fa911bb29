// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostnet

import (
	"fmt"
	"net"
)

// Interfaces lists the names of this machine's network interfaces.
func Interfaces() ([]string, error) {
	all, err := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

// InterfaceOf returns the name of the interface that carries an address.
func InterfaceOf(ip net.IP) (string, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range ifaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no interface has the address %s", ip)
}
