// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package deb writes Debian packages.
//
// The format is that of deb(5): an ar archive of a version, an archive of the control
// files and one of the files that are installed.
package deb

import (
	"bytes"
	"crypto/md5" //nolint:gosec // md5sums, by which dpkg --verify finds damaged files, knows no other
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/release/tree"
)

// Package is what a Debian package says of itself and installs.
type Package struct {
	Name, Version string // of Debian, with its revision
	Arch          string // of Debian: amd64, arm64
	Section       string
	Maintainer    string
	Homepage      string
	Depends       []string
	Recommends    []string
	Suggests      []string
	Summary       string            // one line
	Description   string            // paragraphs, separated by empty lines
	Scripts       map[string]string // postinst, prerm, postrm
	Files         tree.Files
	At            time.Time // of all files
}

// Bytes is the package.
func (p Package) Bytes() ([]byte, error) {
	data, err := p.Files.TarGz("./", p.At)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	control, err := p.controlFiles().TarGz("./", p.At)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	out := bytes.NewBufferString("!<arch>\n")
	for _, member := range []struct {
		name string
		body []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", data}} {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, p.At.Unix(), 0, 0, "100644", len(member.body))
		out.Write(member.body)
		if len(member.body)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

func (p Package) controlFiles() tree.Files {
	var files tree.Files
	var sums, config strings.Builder
	sorted := slices.SortedFunc(slices.Values(p.Files), func(a, b tree.File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		switch {
		case f.Config:
			fmt.Fprintf(&config, "/%s\n", f.Path)
		case f.Mode.IsRegular():
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.Body), f.Path) //nolint:gosec // as above
		}
	}
	files.Add("control", 0o644, []byte(p.control()))
	files.Add("md5sums", 0o644, []byte(sums.String()))
	if config.Len() > 0 {
		files.Add("conffiles", 0o644, []byte(config.String()))
	}
	for name, script := range p.Scripts {
		files.Add(name, 0o755, []byte(script))
	}
	return files
}

func (p Package) control() string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	field("Package", p.Name)
	field("Version", p.Version)
	field("Architecture", p.Arch)
	field("Maintainer", p.Maintainer)
	field("Installed-Size", strconv.Itoa(p.installedSize()))
	field("Depends", strings.Join(p.Depends, ", "))
	field("Recommends", strings.Join(p.Recommends, ", "))
	field("Suggests", strings.Join(p.Suggests, ", "))
	field("Section", p.Section)
	field("Priority", "optional")
	field("Homepage", p.Homepage)
	field("Description", p.Summary)
	for line := range strings.Lines(p.Description) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			line = "."
		}
		b.WriteString(" " + line + "\n")
	}
	return b.String()
}

// installedSize is in KiB, as dpkg-gencontrol estimates it: files in blocks of 1 KiB,
// anything else as one.
func (p Package) installedSize() int {
	size := 0
	for _, f := range p.Files {
		size++
		if f.Mode&fs.ModeType == 0 {
			size += (len(f.Body)+1023)/1024 - 1
		}
	}
	return size
}
