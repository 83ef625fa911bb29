// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/tree"
)

// example is a release with stand-ins for the programs.
func example() layout.Release {
	r := layout.Release{
		Version: "1.2.3-rc.1", Commit: "0123456789ab", At: time.Unix(1800000000, 0), Binaries: map[string]map[layout.Platform][]byte{},
		Licenses: map[layout.Platform]string{}, Roots: []byte("roots"),
	}
	for _, p := range layout.Programs() {
		r.Binaries[p.Name] = map[layout.Platform][]byte{}
		for _, on := range p.Platforms {
			r.Binaries[p.Name][on] = []byte(p.Name + " for " + on.String())
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
