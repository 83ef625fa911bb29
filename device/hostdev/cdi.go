// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostdev

import (
	"os"
	"path/filepath"
	"strings"
)

// CDIKind is the vendor and class of NVIDIA GPUs in CDI.
const CDIKind = "nvidia.com/gpu"

// HasCDI reports whether the host has a CDI specification of its GPUs, as
// nvidia-ctk cdi generate writes it. Root is put before /etc and /var/run.
func HasCDI(root string) bool {
	for _, dir := range []string{"/etc/cdi", "/var/run/cdi"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*"))
		if err != nil {
			continue // the pattern is constant
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), CDIKind) {
				return true
			}
		}
	}
	return false
}
