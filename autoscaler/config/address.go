// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// URL parses the address of an API. An address without a scheme is HTTP, because
// Nomad, for example, prints the address of a service as host:port.
func URL(address string, schemes ...string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("%q begins with %s://; write %s://", address, u.Scheme, strings.Join(schemes, ":// or "))
	}
	if u.Host == "" && u.Scheme != "unix" {
		return nil, fmt.Errorf("%q names no host", address)
	}
	return u, nil
}
