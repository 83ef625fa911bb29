// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rpm_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/rpm"
	"github.com/kolo-nomad/kolo/release/tree"
)

func example() rpm.Package {
	p := rpm.Package{
		Name: "kolo", Version: "0.2.0~rc.1", Release: "1", Arch: "x86_64", License: "MPL-2.0", Requires: []string{"glibc >= 2.34"},
		Summary: "autoscaler", Description: "One.", Scripts: rpm.Scripts{PostInstall: "echo in", PreRemove: "echo out", PostRemove: "echo gone"},
		At: time.Unix(1800000000, 0),
	}
	p.Files.Add("usr/bin/kolo", 0o755, []byte("program"))
	p.Files = append(p.Files, tree.File{Path: "etc/kolo/kolo.hcl", Mode: 0o600, Body: []byte("# none\n"), Config: true})
	p.Files.AddLink("usr/bin/also", "kolo")
	return p
}

// What rpm reads in a package is what was put into it.
func TestBytes(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("no rpm here")
	}
	raw, err := example().Bytes()
	must.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kolo.rpm")
	must.NoError(t, os.WriteFile(file, raw, 0o644))
	query := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "rpm", append([]string{"--query", "--package", "--nosignature", file}, args...)...).Output()
		must.NoError(t, err, must.Sprint(string(out)))
		return string(out)
	}
	must.Eq(t, "kolo-0.2.0~rc.1-1.x86_64 MPL-2.0", query("--queryformat", "%{NVRA} %{LICENSE}"))
	must.Eq(t, "/etc/kolo/kolo.hcl\n", query("--configfiles"))
	must.Eq(t, "/etc/kolo/kolo.hcl|/usr/bin/also|/usr/bin/kolo|", query("--queryformat", "[%{FILENAMES}|]"))
	must.Eq(t, "-rw-------|lrwxrwxrwx|-rwxr-xr-x|", query("--queryformat", "[%{FILEMODES:perms}|]"))
	must.StrContains(t, query("--requires"), "glibc >= 2.34\n")
	must.Eq(t, "echo in|echo out|echo gone", query("--queryformat", "%{POSTIN}|%{PREUN}|%{POSTUN}"))
	out, err := exec.CommandContext(t.Context(), "rpm", "--checksig", "--nosignature", file).CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
}

func TestBytes_SameTwice(t *testing.T) {
	first, err := example().Bytes()
	must.NoError(t, err)
	second, err := example().Bytes()
	must.NoError(t, err)
	must.True(t, bytes.Equal(first, second))
}

func TestBytes_Refuses(t *testing.T) {
	p := example()
	p.Requires = []string{"glibc => 2"}
	_, err := p.Bytes()
	must.ErrorContains(t, err, `kolo: requires "glibc => 2"`)
	p = example()
	p.At = time.Unix(-1, 0)
	_, err = p.Bytes()
	must.ErrorContains(t, err, "is none that RPM can write")
}
