// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package deb_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/deb"
	"github.com/kolo-nomad/kolo/release/tree"
)

func example() deb.Package {
	p := deb.Package{
		Name: "kolo", Version: "0.2.0~rc.1-1", Arch: "amd64", Section: "admin", Maintainer: "Kolo authors <kolo@example.test>",
		Depends: []string{"libc6 (>= 2.34)", "adduser"}, Summary: "autoscaler", Description: "One.\n\nTwo.",
		Scripts: map[string]string{"postinst": "#!/bin/sh\nset -e\n"}, At: time.Unix(1800000000, 0),
	}
	p.Files.Add("usr/bin/kolo", 0o755, bytes.Repeat([]byte("x"), 2049))
	p.Files = append(p.Files, tree.File{Path: "etc/kolo/kolo.hcl", Mode: 0o644, Body: []byte("# none\n"), Config: true})
	p.Files.AddLink("usr/bin/also", "kolo")
	return p
}

// What dpkg reads in a package is what was put into it.
func TestBytes(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb here")
	}
	raw, err := example().Bytes()
	must.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "kolo.deb")
	must.NoError(t, os.WriteFile(file, raw, 0o644))
	dpkg := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "dpkg-deb", args...).CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		return string(out)
	}
	must.Eq(t, `Package: kolo
Version: 0.2.0~rc.1-1
Architecture: amd64
Maintainer: Kolo authors <kolo@example.test>
Installed-Size: 5
Depends: libc6 (>= 2.34), adduser
Section: admin
Priority: optional
Description: autoscaler
 One.
 .
 Two.
`, dpkg("--field", file))
	must.Eq(t, "/etc/kolo/kolo.hcl\n", dpkg("--info", file, "conffiles"))
	must.Eq(t, "#!/bin/sh\nset -e\n", dpkg("--info", file, "postinst"))
	root := filepath.Join(dir, "root")
	dpkg("--raw-extract", file, root)
	text, err := os.ReadFile(filepath.Join(root, "usr/bin/also"))
	must.NoError(t, err)
	must.Len(t, 2049, text)
	sums := exec.CommandContext(t.Context(), "md5sum", "--check", "--strict", "DEBIAN/md5sums")
	sums.Dir = root
	out, err := sums.CombinedOutput()
	must.NoError(t, err)
	must.Eq(t, "usr/bin/kolo: OK\n", string(out)) // configuration is the user's
}

func TestBytes_SameTwice(t *testing.T) {
	first, err := example().Bytes()
	must.NoError(t, err)
	second, err := example().Bytes()
	must.NoError(t, err)
	must.True(t, bytes.Equal(first, second))
}
