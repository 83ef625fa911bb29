// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package hostdev

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CDIKind is the vendor and class by which CDI (Container Device Interface) names NVIDIA
// GPUs.
const CDIKind = "nvidia.com/gpu"

// maxCDI bounds how much of a specification is read, in bytes.
const maxCDI = 4 << 20

// CDI holds the texts of a host's CDI specifications of GPUs, in YAML or JSON, as written
// by nvidia-ctk cdi generate.
type CDI []string

// ReadCDI reads the host's specifications. root is prepended to /etc and /var/run.
func ReadCDI(root string) CDI {
	var specs CDI
	for _, dir := range []string{"/etc/cdi", "/var/run/cdi"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*"))
		if err != nil {
			continue // the pattern is constant
		}
		for _, f := range files {
			if text, err := readSome(f); err == nil && strings.Contains(text, CDIKind) {
				specs = append(specs, text)
			}
		}
	}
	return specs
}

// Names reports whether one of the specifications defines a device whose name is this
// UUID.
func (c CDI) Names(id string) bool {
	word := regexp.MustCompile(`(?m)(^|[\s"'])` + regexp.QuoteMeta(id) + `($|[\s"',])`)
	return slices.ContainsFunc(c, word.MatchString)
}

func readSome(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxCDI))
	return string(text), err
}
