// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout

import (
	"io/fs"
	"time"

	"github.com/kolo-nomad/kolo/release/oci"
	"github.com/kolo-nomad/kolo/release/tree"
)

// nonroot is the user of the autoscaler's image, by number: one that distributions give
// no user of theirs.
const nonroot = "65532:65532"

// Images returns the container images of the release. The image kolo runs the autoscaler.
// The image kolo-worker only holds the program, for other images to copy.
func (r Release) Images() []oci.Image {
	var base tree.Files
	base.Add("etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nkolo:x:65532:65532:Kolo autoscaler:/:/sbin/nologin\n"))
	base.Add("etc/group", 0o644, []byte("root:x:0:\nkolo:x:65532:\n"))
	base.Add("etc/ssl/certs/ca-certificates.crt", 0o644, r.Roots)
	base = append(base, tree.File{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777})
	kolo := r.image("kolo", base)
	kolo.User, kolo.Command = nonroot, []string{"agent"}
	return []oci.Image{kolo, r.image("kolo-worker", nil)}
}

func (r Release) image(name string, base tree.Files) oci.Image {
	i := oci.Image{
		Tag: name + ":" + string(r.Version), Entrypoint: []string{"/usr/bin/" + name}, Environment: []string{"PATH=/usr/bin"}, At: r.At,
		Labels: map[string]string{
			"org.opencontainers.image.title": name, "org.opencontainers.image.version": string(r.Version), "org.opencontainers.image.revision": r.Commit,
			"org.opencontainers.image.created": r.At.UTC().Format(time.RFC3339), "org.opencontainers.image.source": Homepage, "org.opencontainers.image.licenses": License,
		},
	}
	for _, p := range Linux {
		var files tree.Files
		files.Add("usr/bin/"+name, 0o755, r.Binaries[name][p])
		files.Add("usr/share/doc/"+name+"/THIRD-PARTY.txt", 0o644, []byte(r.Licenses[p]))
		layers := []tree.Files{files}
		if base != nil {
			layers = []tree.Files{base, files}
		}
		i.Platforms = append(i.Platforms, oci.Platform{Arch: p.Arch, Layers: layers})
	}
	return i
}
