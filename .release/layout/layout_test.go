// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/tree"
)

// example is a release of this checkout with stand-ins for the programs.
func example() layout.Release {
	r := layout.Release{
		Version: "1.2.3-rc.1", Commit: "0123456789ab", At: time.Unix(1800000000, 0), Binaries: map[string]map[layout.Platform][]byte{},
		Manuals: map[string][]byte{}, Licenses: map[layout.Platform]string{}, Glibc: map[string]map[layout.Platform]string{}, Roots: []byte("roots"), Repository: os.DirFS("../.."),
	}
	for _, p := range layout.Programs() {
		r.Binaries[p.Name], r.Glibc[p.Name] = map[layout.Platform][]byte{}, map[layout.Platform]string{}
		for _, on := range p.Platforms {
			r.Binaries[p.Name][on] = []byte(p.Name + " for " + on.String())
			if p.Cgo {
				r.Glibc[p.Name][on] = "2.34"
			}
		}
	}
	return r
}

func paths(files tree.Files) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	return names
}

func TestArchive(t *testing.T) {
	r := example()
	for on, programs := range map[layout.Platform][]string{
		{OS: "linux", Arch: "arm64"}:  {"kolo", "kolo-worker", "nomad-device-nvtopo", "nomad-driver-horovod", "nomad-driver-torch"},
		{OS: "darwin", Arch: "arm64"}: {"kolo"},
	} {
		name, files, err := r.Archive(on)
		must.NoError(t, err)
		must.Eq(t, "kolo_1.2.3-rc.1_"+on.String()+".tar.gz", name)
		var found []string
		for _, f := range files {
			rest, below := strings.CutPrefix(f.Path, "kolo_1.2.3-rc.1_"+on.String()+"/")
			must.True(t, below)
			if path.Dir(rest) == "bin" {
				found = append(found, path.Base(rest))
			}
		}
		slices.Sort(found)
		must.Eq(t, programs, found)
		_, err = files.WithDirs()
		must.NoError(t, err)
	}
}

// What is a user's to change is below /etc, and only that is configuration. The file
// with the token is for root alone.
func TestPackages_Configuration(t *testing.T) {
	for _, p := range layout.Packages() {
		d, err := example().Deb(p, layout.Linux[0])
		must.NoError(t, err)
		for _, f := range d.Files {
			must.Eq(t, strings.HasPrefix(f.Path, "etc/"), f.Config, must.Sprint(f.Path))
			if f.Path == "etc/kolo/environment" {
				must.Eq(t, fs.FileMode(0o600), f.Mode)
			}
		}
	}
}

// All packages can be installed together, and those for Debian and RPM install the same.
func TestPackages_Files(t *testing.T) {
	r := example()
	owners := map[string]string{}
	for _, p := range layout.Packages() {
		d, err := r.Deb(p, layout.Linux[1])
		must.NoError(t, err)
		rp, err := r.RPM(p, layout.Linux[1])
		must.NoError(t, err)
		must.Eq(t, paths(d.Files), paths(rp.Files))
		must.Eq(t, "1.2.3~rc.1-1", d.Version)
		must.Eq(t, "aarch64", rp.Arch)
		for _, f := range d.Files {
			must.Eq(t, "", owners[f.Path], must.Sprintf("%s is in %s, too", f.Path, p.Name))
			owners[f.Path] = p.Name
		}
		_, err = d.Bytes()
		must.NoError(t, err)
		_, err = rp.Bytes()
		must.NoError(t, err)
	}
	for path, want := range map[string]string{
		"usr/bin/kolo": "kolo", "usr/lib/systemd/system/kolo.service": "kolo", "usr/lib/sysusers.d/kolo.conf": "kolo", "usr/bin/kolo-worker": "kolo-worker",
		"usr/lib/nomad/plugins/nomad-driver-torch": "kolo-nomad-driver", "usr/lib/nomad/plugins/nomad-device-nvtopo": "kolo-nomad-device",
	} {
		must.Eq(t, want, owners[path], must.Sprint(path))
	}
}

// A package depends on the glibc that its program was linked against, a static program
// on none.
func TestPackages_Depends(t *testing.T) {
	r := example()
	depends := map[string][]string{}
	for _, p := range layout.Packages() {
		d, err := r.Deb(p, layout.Linux[0])
		must.NoError(t, err)
		depends[p.Name] = d.Depends
	}
	must.Eq(t, map[string][]string{
		"kolo": {"passwd"}, "kolo-worker": nil, "kolo-nomad-driver": {"libc6 (>= 2.34)"}, "kolo-nomad-device": {"libc6 (>= 2.34)"},
	}, depends)
}

func TestImages(t *testing.T) {
	images := example().Images()
	must.Len(t, 2, images)
	must.Eq(t, "kolo:1.2.3-rc.1", images[0].Tag)
	must.Eq(t, "65532:65532", images[0].User)
	must.Eq(t, "kolo-worker:1.2.3-rc.1", images[1].Tag)
	for _, i := range images {
		must.Len(t, 2, i.Platforms)
		for _, p := range i.Platforms {
			program := p.Layers[len(p.Layers)-1]
			must.SliceContains(t, paths(program), strings.TrimPrefix(i.Entrypoint[0], "/"))
			must.Eq(t, strings.TrimPrefix(i.Entrypoint[0], "/usr/bin/")+" for linux_"+p.Arch, string(program[0].Body))
		}
	}
	must.SliceContains(t, paths(images[0].Platforms[0].Layers[0]), "etc/ssl/certs/ca-certificates.crt")
}
