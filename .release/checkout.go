// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// stamp is what programs report of the build they are from.
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

// environment returns the environment of the go command for a program on a
// platform, the same as in .goreleaser.yaml.
func environment(program layout.Program, on layout.Platform) []string {
	cgo := "0"
	if program.Cgo {
		cgo = "1"
	}
	return []string{"GOFLAGS=", "GOOS=" + on.OS, "GOARCH=" + on.Arch, "CGO_ENABLED=" + cgo}
}

// licenses returns the licences of Go, of the modules that the programs of a platform are
// linked from, and of the libraries of kolo's web page.
func (c checkout) licenses(ctx context.Context, on layout.Platform) (string, error) {
	goroot, err := c.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	modules := map[string]licenses.Module{
		"Go":   {Path: "Go", Version: runtime.Version(), Dir: goroot},
		"page": {Path: "JavaScript of kolo's web page: Preact, htm and uPlot, as released on", Version: "npm", Dir: filepath.Join(c.dir, "autoscaler/api/page/static/lib")},
	}
	for _, program := range layout.Programs() {
		if !slices.Contains(program.Platforms, on) {
			continue
		}
		const format = `{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`
		out, err := c.output(ctx, environment(program, on), "go", "list", "-deps", "-tags", program.Tags, "-f", format, program.Package)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) == 3 {
				modules[fields[0]] = licenses.Module{Path: fields[0], Version: fields[1], Dir: fields[2]}
			}
		}
	}
	return licenses.Text(slices.Collect(maps.Values(modules)))
}

// manuals returns the manual pages of all programs, which are built in directory work.
func (c checkout) manuals(ctx context.Context, s stamp, work string) (map[string][]byte, error) {
	here := layout.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	pages := map[string][]byte{}
	for _, program := range layout.Programs() {
		if !slices.Contains(program.Platforms, here) {
			return nil, fmt.Errorf("manual pages are made by the programs themselves, and %s is not for %s/%s: build on linux/amd64 or linux/arm64",
				program.Name, here.OS, here.Arch)
		}
		say("making the manual page of %s", program.Name)
		args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", program.Tags, "-o", filepath.Join(work, program.Name), program.Package}
		if _, err := c.output(ctx, environment(program, here), "go", args...); err != nil {
			return nil, err
		}
		if err := manuals(ctx, s, program, work, pages); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// manuals adds the pages of a program in a directory, made from what it prints as its help.
func manuals(ctx context.Context, s stamp, program layout.Program, dir string, pages map[string][]byte) error {
	names := []string{program.Name}
	if program.Alias != "" {
		names = append(names, program.Alias)
		if err := os.Symlink(program.Name, filepath.Join(dir, program.Alias)); err != nil {
			return err
		}
	}
	for _, name := range names {
		page := manpage.Page{Name: name, Summary: program.Summary, Version: string(s.version), At: s.at}
		help := func(args ...string) (string, error) {
			out, err := exec.CommandContext(ctx, filepath.Join(dir, name), args...).CombinedOutput() // Go's flags print to stderr
			if err != nil {
				err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
			}
			return string(out), err
		}
		var err error
		if len(program.Help) == 0 {
			page.Parts, err = commands(name, help)
		} else {
			page.Parts, err = texts(program.Help, help)
		}
		if err != nil {
			return err
		}
		pages[name] = page.Roff()
	}
	return nil
}

// texts returns the parts of a page whose program has few commands.
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
