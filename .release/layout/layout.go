// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout

import (
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/kolo-nomad/kolo/release/packaging"
	"github.com/kolo-nomad/kolo/release/tree"
	"github.com/kolo-nomad/kolo/release/version"
)

// What packages and images say of the project.
const (
	Homepage   = "https://github.com/kolo-nomad/kolo"
	License    = "MPL-2.0"
	Vendor     = "Kolo authors"
	Maintainer = "Kolo authors <kolo@users.noreply.github.com>"
)

// Release is all that goes into the files of a release.
type Release struct {
	Version version.Version
	Commit  string
	At      time.Time // of the commit

	Binaries   map[string]map[Platform][]byte // by program
	Manuals    map[string][]byte              // by program or alias
	Licenses   map[Platform]string            // of the modules linked into the programs of a platform
	Glibc      map[string]map[Platform]string // the oldest that a program with cgo starts with
	Roots      []byte                         // certificates of public authorities, in PEM
	Repository fs.FS                          // the files of the project
}

// Name is the name of a file of the release.
func (r Release) Name(what string, p Platform, end string) string {
	return fmt.Sprintf("%s_%s_%s%s", what, r.Version, p, end)
}

func (r Release) addRepository(files *tree.Files, dir string, names ...string) error {
	for _, name := range names {
		text, err := fs.ReadFile(r.Repository, name)
		if err != nil {
			return err
		}
		files.Add(path.Join(dir, path.Base(name)), 0o644, text)
	}
	return nil
}

func addPackaging(files *tree.Files, name, path string) error {
	text, err := packaging.Files.ReadFile(name)
	if err == nil {
		files.Add(path, 0o644, text)
	}
	return err
}
