// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/layout"
)

// standIn replaces go: it notes what is to be built, and writes a file in place of a
// program, or of what `release extras` writes.
const standIn = `#!/bin/sh
case "$1" in
build)
  echo "$GOOS $GOARCH $CGO_ENABLED $GOFLAGS $CC $*" >> "$KOLO_BUILDS"
  for arg; do
    [ "$before" = -o ] && out=$arg
    before=$arg
  done
  echo "$(basename "$out") for $GOOS/$GOARCH" > "$out"
  chmod 755 "$out" ;;
-C)
  for name in kolo_1.2.3-rc.1.spdx.json kolo_1.2.3-rc.1_oci.tar kolo-worker_1.2.3-rc.1_oci.tar; do
    echo "$name" > "$name"
  done ;;
esac
`

var at = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// rehearsal is a release by .goreleaser.yaml with stand-ins for programs, manual pages
// and licences.
type rehearsal struct{ dist, builds string }

// rehearse runs GoReleaser in a copy of what it reads of the project.
func rehearse(t *testing.T, environment ...string) rehearsal {
	t.Helper()
	goreleaser, err := filepath.Abs("../bin/tools/goreleaser")
	must.NoError(t, err)
	_, err = os.Stat(goreleaser)
	must.NoError(t, err, must.Sprint("make test-release builds it"))
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{".goreleaser.yaml", "LICENSE", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		must.NoError(t, err)
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for _, name := range []string{".release/packaging", "jobspecs"} {
		must.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("..", name))))
	}
	manuals, texts := map[string][]byte{}, map[layout.Platform]string{}
	for _, p := range layout.Programs() {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, p.Package), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(dir, p.Package, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
		manuals[p.Name] = []byte("page of " + p.Name)
		if p.Alias != "" {
			manuals[p.Alias] = []byte("page of " + p.Alias)
		}
		for _, on := range p.Platforms {
			texts[on] = "licences for " + on.String()
		}
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	must.NoError(t, writeStage(checkout{dir}, filepath.Join(dir, "bin/stage"), manuals, texts))
	must.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(standIn), 0o755))

	r := rehearsal{dist: filepath.Join(dir, "bin/dist"), builds: filepath.Join(bin, "builds")}
	cmd := exec.CommandContext(t.Context(), goreleaser, "release", "--snapshot", "--clean", "--parallelism", "1")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KOLO_BUILDS="+r.builds, "KOLO_VERSION=1.2.3-rc.1", "KOLO_COMMIT=0123456789ab",
		"KOLO_DATE="+at.Format(time.RFC3339), "SOURCE_DATE_EPOCH=1800000000")
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	return r
}

func (r rehearsal) sums(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dist, "SHA256SUMS"))
	must.NoError(t, err)
	return string(text)
}

func (r rehearsal) file(name string) string { return filepath.Join(r.dist, name) }

// entries returns the files of a tar archive by their names, directories left out.
func entries(t *testing.T, archive io.Reader) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.NoError(t, err)
		must.Eq(t, "root root 0 0", h.Uname+" "+h.Gname+" 0 0", must.Sprint(h.Name))
		must.Zero(t, h.Uid+h.Gid)
		must.Eq(t, at.Unix(), h.ModTime.Unix(), must.Sprint(h.Name))
		if h.Typeflag != tar.TypeDir {
			all[h.Name] = h
		}
	}
}

func program(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s %v: %s", name, args, out))
	return string(out)
}

// Each program is built for the platforms that its manual page and its licences cover, and
// for no others.
func TestGoReleaser_Builds(t *testing.T) {
	text, err := os.ReadFile(rehearse(t).builds)
	must.NoError(t, err)
	var want []string
	for _, p := range layout.Programs() {
		for _, on := range p.Platforms {
			cgo, tags := "0  ", ""
			if p.Cgo {
				cc := map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}[on.Arch]
				if on.Arch == runtime.GOARCH {
					cc = "gcc"
				}
				cgo = "1  " + cc
			}
			if p.Tags != "" {
				tags = "-tags=" + p.Tags + " "
			}
			const pkg = " -X github.com/kolo-nomad/kolo/driver/buildinfo."
			want = append(want, on.OS+" "+on.Arch+" "+cgo+" build -trimpath -buildvcs=false "+tags+"-ldflags=-s -w"+pkg+"version=1.2.3-rc.1"+
				pkg+"commit=0123456789ab"+pkg+"date=2027-01-15T08:00:00Z "+p.Package)
		}
	}
	var got []string
	for line := range strings.Lines(regexp.MustCompile(` -o \S+`).ReplaceAllString(string(text), "")) {
		got = append(got, strings.TrimSpace(line))
	}
	slices.Sort(want)
	slices.Sort(got)
	must.Eq(t, want, got)
}

// SHA256SUMS names every file of a release, and the same commit gives the same files,
// whatever the directory, the time and the time zone.
func TestGoReleaser_SameTwice(t *testing.T) {
	r := rehearse(t)
	must.Eq(t, r.sums(t), rehearse(t, "TZ=Pacific/Kiritimati", "LC_ALL=C").sums(t))
	var names []string
	for line := range strings.Lines(r.sums(t)) {
		names = append(names, strings.TrimSpace(line[66:]))
	}
	want := []string{"kolo_1.2.3-rc.1.spdx.json", "kolo_1.2.3-rc.1_oci.tar", "kolo-worker_1.2.3-rc.1_oci.tar"}
	for _, on := range slices.Concat(layout.Linux, layout.MacOS) {
		want = append(want, "kolo_1.2.3-rc.1_"+on.String()+".tar.gz")
	}
	for _, on := range layout.Linux {
		for _, name := range packages {
			want = append(want, name+"_1.2.3-rc.1_"+on.String()+".deb", name+"_1.2.3-rc.1_"+on.String()+".rpm")
		}
	}
	slices.Sort(want)
	slices.Sort(names)
	must.Eq(t, want, names)
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
	check.Dir = r.dist
	out, err := check.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
}

func TestGoReleaser_Archives(t *testing.T) {
	r := rehearse(t)
	for on, programs := range map[layout.Platform][]string{
		{OS: "linux", Arch: "arm64"}:  {"kolo", "kolo-worker", "nomad-device-nvtopo", "nomad-driver-horovod", "nomad-driver-torch"},
		{OS: "darwin", Arch: "arm64"}: {"kolo"},
	} {
		name := "kolo_1.2.3-rc.1_" + on.String()
		f, err := os.Open(r.file(name + ".tar.gz"))
		must.NoError(t, err)
		defer f.Close()
		z, err := gzip.NewReader(f)
		must.NoError(t, err)
		var found []string
		for file, h := range entries(t, z) {
			rest, below := strings.CutPrefix(file, name+"/")
			must.True(t, below)
			if path.Dir(rest) == "bin" {
				found = append(found, path.Base(rest))
				must.Eq(t, 0o755, h.Mode)
				must.True(t, h.Typeflag == tar.TypeReg || h.Linkname == "nomad-driver-horovod")
				page := name + "/share/man/man1/" + path.Base(rest) + ".1"
				must.StrContains(t, program(t, "tar", "-xzOf", f.Name(), page), "page of "+path.Base(rest))
			} else {
				must.Eq(t, 0o644, h.Mode, must.Sprint(file))
			}
		}
		slices.Sort(found)
		must.Eq(t, programs, found)
		must.Eq(t, "licences for "+on.String(), program(t, "tar", "-xzOf", f.Name(), name+"/THIRD-PARTY.txt"))
	}
}

// pluginDir is where packages install the plugins of Nomad.
const pluginDir = "/usr/lib/nomad/plugins"

var packages = []string{"kolo", "kolo-worker", "kolo-nomad-driver", "kolo-nomad-device"}

// debFiles returns what a Debian package installs.
func (r rehearsal) debFiles(t *testing.T, name, arch string) map[string]*tar.Header {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--fsys-tarfile", r.file(name+"_1.2.3-rc.1_linux_"+arch+".deb")).Output()
	must.NoError(t, err)
	files := map[string]*tar.Header{}
	for name, h := range entries(t, bytes.NewReader(out)) {
		files[strings.TrimPrefix(name, ".")] = h
	}
	return files
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %s here", program)
	}
}

// Files that a user may change are below /etc, and only these are configuration files. Only
// root can read the file with the token. All packages can be installed together.
func TestGoReleaser_Deb(t *testing.T) {
	needs(t, "dpkg-deb")
	r := rehearse(t)
	owners := map[string]string{}
	for _, name := range packages {
		deb := r.file(name + "_1.2.3-rc.1_linux_amd64.deb")
		root := filepath.Join(t.TempDir(), "root")
		program(t, "dpkg-deb", "--raw-extract", deb, root)
		config, sums := []string{}, []string{}
		for file, h := range r.debFiles(t, name, "amd64") {
			must.Eq(t, "", owners[file], must.Sprintf("%s is in %s, too", file, name))
			owners[file] = name
			mode := int64(0o644)
			switch {
			case file == "/etc/kolo/environment":
				mode = 0o600
			case h.Typeflag == tar.TypeSymlink:
				mode = 0o777
			case slices.Contains([]string{"/usr/bin", pluginDir}, path.Dir(file)):
				mode = 0o755
			}
			must.Eq(t, mode, h.Mode, must.Sprint(file))
			if strings.HasPrefix(file, "/etc/") {
				config = append(config, file)
			}
			if h.Typeflag == tar.TypeReg {
				sums = append(sums, file[1:]+": OK")
			}
		}
		slices.Sort(config)
		slices.Sort(sums)
		text, _ := os.ReadFile(filepath.Join(root, "DEBIAN/conffiles"))
		must.Eq(t, config, strings.Fields(string(text)), must.Sprint(name))
		check := exec.CommandContext(t.Context(), "md5sum", "--check", "--strict", "DEBIAN/md5sums")
		check.Dir = root
		out, err := check.CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(got)
		must.Eq(t, sums, got)
		must.Eq(t, name == "kolo", exists(filepath.Join(root, "DEBIAN/postinst")))
	}
	for file, want := range map[string]string{
		"/usr/bin/kolo": "kolo", "/usr/lib/systemd/system/kolo.service": "kolo", "/usr/lib/sysusers.d/kolo.conf": "kolo", "/usr/bin/kolo-worker": "kolo-worker",
		pluginDir + "/nomad-driver-torch": "kolo-nomad-driver", pluginDir + "/nomad-device-nvtopo": "kolo-nomad-device",
	} {
		must.Eq(t, want, owners[file], must.Sprint(file))
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// A package depends on the glibc that its program was linked against, a static program
// on none.
func TestGoReleaser_Control(t *testing.T) {
	needs(t, "dpkg-deb")
	r := rehearse(t)
	depends := map[string]string{}
	for _, name := range packages {
		depends[name] = strings.TrimSpace(program(t, "dpkg-deb", "--field", r.file(name+"_1.2.3-rc.1_linux_arm64.deb"), "Depends"))
	}
	glibc := "libc6 (>= " + layout.Glibc + ")"
	must.Eq(t, map[string]string{"kolo": "passwd", "kolo-worker": "", "kolo-nomad-driver": glibc, "kolo-nomad-device": glibc}, depends)
	deb := r.file("kolo_1.2.3-rc.1_linux_arm64.deb")
	control := program(t, "dpkg-deb", "--field", deb)
	control = regexp.MustCompile(`(?m)^Installed-Size: \d+\n`).ReplaceAllString(control, "")
	must.Eq(t, `Package: kolo
Version: 1.2.3~rc.1-1
Section: admin
Priority: optional
Architecture: arm64
Maintainer: Kolo authors <kolo@users.noreply.github.com>
Depends: passwd
Homepage: https://github.com/kolo-nomad/kolo
Description: autoscaler for elastic deep-learning training on Nomad
 Kolo sets the counts of elastic training jobs by a scheduling policy, simulates
 policies on traces, and answers who has what and why. This package has the
 autoscaler as a systemd service without root, and its command line.
`, control)
	for script, file := range map[string]string{"postinst": "kolo.postinst", "prerm": "kolo.prerm", "postrm": "kolo.postrm"} {
		text, err := os.ReadFile("packaging/" + file)
		must.NoError(t, err)
		must.Eq(t, string(text), program(t, "dpkg-deb", "--info", deb, script))
	}
}

// Packages for RPM install the same files as those for Debian, with the same modes.
func TestGoReleaser_RPM(t *testing.T) {
	needs(t, "dpkg-deb")
	needs(t, "rpm")
	r := rehearse(t)
	for _, name := range packages {
		file := r.file(name + "_1.2.3-rc.1_linux_arm64.rpm")
		query := func(args ...string) string {
			t.Helper()
			return program(t, "rpm", append([]string{"--query", "--package", "--nosignature", file}, args...)...)
		}
		must.Eq(t, name+"-1.2.3~rc.1-1.aarch64 MPL-2.0 reproducible", query("--queryformat", "%{NVRA} %{LICENSE} %{BUILDHOST}"))
		want := r.debFiles(t, name, "arm64")
		must.Eq(t, slices.Sorted(maps.Keys(want)), strings.Split(strings.TrimSuffix(query("--queryformat", "[%{FILENAMES}|]"), "|"), "|"))
		must.Eq(t, name == "kolo-nomad-driver" || name == "kolo-nomad-device", strings.Contains(query("--requires"), "glibc >= "+layout.Glibc+"\n"))
		program(t, "rpm", "--checksig", "--nosignature", file)
		if name != "kolo" {
			must.Eq(t, "(none)(none)(none)", query("--queryformat", "%{POSTIN}%{PREUN}%{POSTUN}"))
			continue
		}
		must.Eq(t, "/etc/kolo/environment\n/etc/kolo/kolo.hcl\n", query("--configfiles"))
		must.StrContains(t, query("--queryformat", "[%{FILENAMES} %{FILEMODES:perms} %{FILEFLAGS:fflags}\n]"), "/etc/kolo/environment -rw------- cn\n")
		for tag, script := range map[string]string{"POSTIN": "kolo.post.rpm", "PREUN": "kolo.preun.rpm", "POSTUN": "kolo.postun.rpm"} {
			text, err := os.ReadFile("packaging/" + script)
			must.NoError(t, err)
			must.Eq(t, string(text), query("--queryformat", "%{"+tag+"}"))
		}
	}
}
