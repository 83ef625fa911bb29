// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout

import (
	"time"

	"github.com/kolo-nomad/kolo/release/version"
)

// What images and the bill of materials say of the project.
const (
	Homepage = "https://github.com/kolo-nomad/kolo"
	License  = "MPL-2.0"
	Vendor   = "Kolo authors"
)

// Glibc is the oldest version of glibc with which the programs that use cgo run.
// Packages depend on it.
const Glibc = "2.34"

// Release holds everything that goes into the container images of a release.
type Release struct {
	Version version.Version
	Commit  string
	At      time.Time // of the commit

	Binaries map[string]map[Platform][]byte // by program
	Licenses map[Platform]string            // of the modules linked into the programs of a platform
	Roots    []byte                         // certificates of public authorities, in PEM
}
