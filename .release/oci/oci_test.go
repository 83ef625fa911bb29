// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package oci_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/oci"
	"github.com/kolo-nomad/kolo/release/tree"
)

func example() oci.Image {
	var base, amd, arm tree.Files
	base.Add("etc/passwd", 0o644, []byte("root:x:0:0::/:/none\n"))
	amd.Add("usr/bin/kolo", 0o755, []byte("amd64"))
	arm.Add("usr/bin/kolo", 0o755, []byte("arm64"))
	return oci.Image{
		Tag: "kolo:1.2.3", Labels: map[string]string{"org.opencontainers.image.version": "1.2.3"}, User: "65532:65532",
		Entrypoint: []string{"/usr/bin/kolo"}, Command: []string{"agent"}, At: time.Unix(1800000000, 0),
		Platforms: []oci.Platform{{"amd64", []tree.Files{base, amd}}, {"arm64", []tree.Files{base, arm}}},
	}
}

func write(t *testing.T, files tree.Files) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.NoError(t, os.WriteFile(path, f.Body, 0o644))
	}
	return dir
}

// Every digest and every size is that of what it names, from the index down to the
// layers, and both platforms share the layer that they have in common.
func TestLayout_Digests(t *testing.T) {
	files, err := example().Layout()
	must.NoError(t, err)
	dir := write(t, files)
	seen := map[string]bool{}
	var follow func(raw []byte)
	follow = func(raw []byte) {
		var node struct {
			Manifests, Layers []json.RawMessage
			Config            json.RawMessage
		}
		must.NoError(t, json.Unmarshal(raw, &node))
		children := append(node.Manifests, node.Layers...)
		if bytes.Contains(node.Config, []byte("digest")) {
			children = append(children, node.Config)
		}
		for _, c := range children {
			var d struct {
				MediaType, Digest string
				Size              int
			}
			must.NoError(t, json.Unmarshal(c, &d))
			body, err := os.ReadFile(filepath.Join(dir, "blobs/sha256", strings.TrimPrefix(d.Digest, "sha256:")))
			must.NoError(t, err)
			must.Eq(t, d.Digest, fmt.Sprintf("sha256:%x", sha256.Sum256(body)))
			must.Eq(t, d.Size, len(body))
			seen[d.Digest] = true
			if strings.HasSuffix(d.MediaType, "json") {
				follow(body)
			}
		}
	}
	top, err := os.ReadFile(filepath.Join(dir, "index.json"))
	must.NoError(t, err)
	follow(top)
	must.MapLen(t, 8, seen) // index, 2 manifests, 2 configurations, 3 layers
	must.Len(t, 8+2, files)
}

// Skopeo, as podman does, takes the platform that is asked for.
func TestLayout_Skopeo(t *testing.T) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("no skopeo here")
	}
	files, err := example().Layout()
	must.NoError(t, err)
	dir := write(t, files)
	for _, arch := range []string{"amd64", "arm64"} {
		out, err := exec.CommandContext(t.Context(), "skopeo", "--override-os=linux", "--override-arch="+arch, "inspect", "--config", "oci:"+dir+":kolo:1.2.3").CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		for _, want := range []string{`"architecture":"` + arch, `"User":"65532:65532"`, `"Entrypoint":["/usr/bin/kolo"]`, `"Cmd":["agent"]`} {
			must.StrContains(t, strings.Join(strings.Fields(string(out)), ""), want)
		}
	}
}

func TestLayout_SameTwice(t *testing.T) {
	first, err := example().Layout()
	must.NoError(t, err)
	second, err := example().Layout()
	must.NoError(t, err)
	must.Eq(t, first, second)
}
