// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8648":        "http://127.0.0.1:8648",
		"localhost:8648":        "http://localhost:8648",
		"[::1]:8648":            "http://[::1]:8648",
		"https://kolo.example/": "https://kolo.example/",
		"unix:///secrets/api":   "unix:///secrets/api",
	} {
		u, err := URL(address, "http", "https", "unix")
		must.NoError(t, err)
		must.Eq(t, want, u.String())
	}
	for address, want := range map[string]string{
		"nope://x": `"nope://x" begins with nope://; write http:// or https://`,
		"http://":  `"http://" names no host`,
		"a b:1":    "invalid character",
	} {
		_, err := URL(address, "http", "https")
		must.ErrorContains(t, err, want)
	}
}
