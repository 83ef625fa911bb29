// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	goversion "go/version"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/licenses"
	"github.com/kolo-nomad/kolo/release/manpage"
	"github.com/kolo-nomad/kolo/release/version"
)

// checkout is the directory of the project, a working tree of git.
type checkout struct{ dir string }

// stamp is what programs say of the build they are from.
type stamp struct {
	version version.Version
	commit  string
	at      time.Time // of the commit
}

func (s stamp) date() string { return s.at.UTC().Format(time.RFC3339) }

func (c checkout) git(ctx context.Context, args ...string) (string, error) {
	return c.output(ctx, nil, "git", args...)
}

// output runs a program in the checkout and returns what it prints.
func (c checkout) output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(string(out)), nil
}

// stamp reads version, commit and date from git. SOURCE_DATE_EPOCH replaces the date.
func (c checkout) stamp(ctx context.Context) (stamp, error) {
	var s stamp
	line, err := c.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(line, " ")
	s.commit = commit[:12]
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("the date of the commit, or SOURCE_DATE_EPOCH: %w", err)
	}
	s.at = time.Unix(unix, 0)
	s.version, err = c.version(ctx)
	return s, err
}

func (c checkout) version(ctx context.Context) (version.Version, error) {
	const releases = "v[0-9]*"
	tags, err := c.git(ctx, "tag", "--merged", "HEAD", "--list", releases)
	if err != nil {
		return "", err
	}
	if tags != "" {
		described, err := c.git(ctx, "describe", "--tags", "--long", "--dirty", "--match", releases)
		if err != nil {
			return "", err
		}
		return version.Describe(described)
	}
	count, err := c.git(ctx, "rev-list", "--count", "HEAD")
	if err != nil {
		return "", err
	}
	commits, err := strconv.Atoi(count)
	if err != nil {
		return "", err
	}
	changes, err := c.git(ctx, "status", "--porcelain", "--untracked-files=no")
	return version.FromCommits(commits, changes != ""), err
}

// binary is a program, built for a platform.
type binary struct {
	program layout.Program
	on      layout.Platform
	path    string
	body    []byte
	info    *debug.BuildInfo
}

// crossCompilers of Debian for programs with cgo, by architecture.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// build builds all programs for all platforms.
func (c checkout) build(ctx context.Context, s stamp, work string) ([]binary, error) {
	const pkg = "github.com/kolo-nomad/kolo/driver/buildinfo."
	ldflags := fmt.Sprintf("-s -w -X %sversion=%s -X %scommit=%s -X %sdate=%s", pkg, s.version, pkg, s.commit, pkg, s.date())
	var all []binary
	for _, program := range layout.Programs() {
		for _, on := range program.Platforms {
			b := binary{program: program, on: on, path: filepath.Join(work, on.String(), program.Name)}
			env := []string{"GOFLAGS=", "GOOS=" + on.OS, "GOARCH=" + on.Arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0"}
			if program.Cgo {
				compiler, err := crossCompiler(on.Arch)
				if err != nil {
					return nil, err
				}
				env = append(env, "CGO_ENABLED=1", "CC="+compiler)
			}
			say("building %s for %s/%s", program.Name, on.OS, on.Arch)
			args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", program.Tags, "-ldflags", ldflags, "-o", b.path, program.Package}
			if _, err := c.output(ctx, env, "go", args...); err != nil {
				return nil, err
			}
			if err := b.read(); err != nil {
				return nil, err
			}
			all = append(all, b)
		}
	}
	return all, nil
}

func crossCompiler(arch string) (string, error) {
	if arch == runtime.GOARCH {
		return "gcc", nil
	}
	cc := crossCompilers[arch]
	if _, err := exec.LookPath(cc); err != nil {
		return "", fmt.Errorf("programs with cgo for linux/%s need %s: .release/compiler.sh installs it on Debian: %w", arch, cc, err)
	}
	return cc, nil
}

func (b *binary) read() error {
	var err error
	if b.body, err = os.ReadFile(b.path); err != nil {
		return err
	}
	b.info, err = buildinfo.Read(bytes.NewReader(b.body))
	return err
}

// glibc is the oldest glibc that has what the program imports from it; "" is a program
// that needs none.
func (b *binary) glibc() (string, error) {
	f, err := elf.NewFile(bytes.NewReader(b.body))
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.path, err)
	}
	symbols, err := f.ImportedSymbols()
	if errors.Is(err, elf.ErrNoSymbols) {
		return "", nil // static
	} else if err != nil {
		return "", fmt.Errorf("%s: %w", b.path, err)
	}
	newest := ""
	for _, s := range symbols {
		// GLIBC_2.34; Go's versions have the same order.
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && (newest == "" || goversion.Compare("go"+v, "go"+newest) > 0) {
			newest = v
		}
	}
	return newest, nil
}

// collect is all that the release has in addition to programs.
func (c checkout) collect(ctx context.Context, s stamp, built []binary) (layout.Release, error) {
	r := layout.Release{
		Version: s.version, Commit: s.commit, At: s.at, Binaries: map[string]map[layout.Platform][]byte{}, Manuals: map[string][]byte{},
		Licenses: map[layout.Platform]string{}, Glibc: map[string]map[layout.Platform]string{}, Roots: roots(), Repository: os.DirFS(c.dir),
	}
	modules := map[layout.Platform]map[string]*debug.Module{}
	for _, b := range built {
		name := b.program.Name
		if r.Binaries[name] == nil {
			r.Binaries[name], r.Glibc[name] = map[layout.Platform][]byte{}, map[layout.Platform]string{}
		}
		r.Binaries[name][b.on] = b.body
		var err error
		if b.program.Cgo {
			if r.Glibc[name][b.on], err = b.glibc(); err != nil {
				return r, err
			}
		}
		if modules[b.on] == nil {
			modules[b.on] = map[string]*debug.Module{}
		}
		for _, m := range b.info.Deps {
			modules[b.on][m.Path] = m
		}
		if b.on == (layout.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}) {
			if err := c.manuals(ctx, s, b, r.Manuals); err != nil {
				return r, err
			}
		}
	}
	if len(r.Manuals) == 0 {
		return r, fmt.Errorf("manual pages are made by the programs themselves, and no release is built for %s/%s: build on linux/amd64 or linux/arm64", runtime.GOOS, runtime.GOARCH)
	}
	for on, linked := range modules {
		text, err := c.licenses(ctx, slices.Collect(maps.Keys(linked)))
		if err != nil {
			return r, err
		}
		r.Licenses[on] = text
	}
	return r, nil
}

// licenses are those of Go and of modules, whose sources go list finds.
func (c checkout) licenses(ctx context.Context, paths []string) (string, error) {
	goroot, err := c.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	all := []licenses.Module{{Path: "Go", Version: runtime.Version(), Dir: goroot}}
	slices.Sort(paths)
	out, err := c.output(ctx, []string{"GOFLAGS="}, "go", append([]string{"list", "-m", "-json=Path,Version,Dir,Replace"}, paths...)...)
	if err != nil {
		return "", err
	}
	type module struct {
		licenses.Module
		Replace *licenses.Module
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var m module
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return licenses.Text(all)
		} else if err != nil {
			return "", err
		}
		if m.Replace != nil {
			m.Module = *m.Replace
		}
		all = append(all, m.Module)
	}
}

// manuals makes the manual pages of a program, from what it prints as its help.
func (c checkout) manuals(ctx context.Context, s stamp, b binary, pages map[string][]byte) error {
	names := []string{b.program.Name}
	if b.program.Alias != "" {
		names = append(names, b.program.Alias)
		if err := os.Symlink(b.program.Name, filepath.Join(filepath.Dir(b.path), b.program.Alias)); err != nil {
			return err
		}
	}
	for _, name := range names {
		page := manpage.Page{Name: name, Summary: b.program.Summary, Version: string(s.version), At: s.at}
		help := func(args ...string) (string, error) {
			out, err := exec.CommandContext(ctx, filepath.Join(filepath.Dir(b.path), name), args...).CombinedOutput() // Go's flags print to stderr
			if err != nil {
				err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
			}
			return string(out), err
		}
		var err error
		if len(b.program.Help) == 0 {
			page.Parts, err = commands(name, help)
		} else {
			page.Parts, err = texts(b.program.Help, help)
		}
		if err != nil {
			return err
		}
		pages[name] = page.Roff()
	}
	return nil
}

// texts are the parts of a page whose program has few commands.
func texts(commandLines [][]string, help func(args ...string) (string, error)) ([]manpage.Part, error) {
	var parts []manpage.Part
	for _, args := range commandLines {
		text, err := help(args...)
		if err != nil {
			return nil, err
		}
		heading := "description"
		if len(args) > 1 {
			heading = strings.Join(args[:len(args)-1], " ")
		}
		parts = append(parts, manpage.Part{Heading: heading, Help: text})
	}
	return parts, nil
}
