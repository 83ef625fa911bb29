// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command release builds a release of Kolo from a checkout: archives, packages, images,
// checksums and a bill of materials. It is a module of its own, so that what it imports
// is none of the programs' dependencies.
//
// The same commit gives the same files, byte for byte, with the same Go and the same C
// compilers.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/sbom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	source := flags.String("C", "..", "`directory` of the project")
	out := flags.String("o", "../bin/release", "`directory` of the release; what is there is replaced")
	tagged := flags.Bool("tagged", false, "fail unless the checkout is that of a tag, without changes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := filepath.Abs(*source)
	if err != nil {
		return err
	}
	c := checkout{dir}
	s, err := c.stamp(ctx)
	if err != nil {
		return err
	}
	if *tagged && strings.Contains(string(s.version), "dev.") {
		return fmt.Errorf("%s is no release: check a tag out, named v1.2.3, and leave nothing uncommitted", s.version)
	}
	say("Kolo %s, commit %s of %s", s.version, s.commit, s.date())
	work, err := os.MkdirTemp("", "kolo-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	built, err := c.build(ctx, s, work)
	if err != nil {
		return err
	}
	release, err := c.collect(ctx, s, built)
	if err != nil {
		return err
	}
	files, err := produce(release, built)
	if err != nil {
		return err
	}
	return write(files, *out)
}

func say(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }

// roots are the certificates of public authorities, those that Mozilla trusts. Those that
// it trusts with constraints, which PEM cannot express, are left out.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a bytes.Buffer does not fail
		}
	}
	return out.Bytes()
}

// produce makes the files of a release, by their names.
func produce(r layout.Release, built []binary) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range slices.Concat(layout.Linux, layout.MacOS) {
		name, content, err := r.Archive(p)
		if err != nil {
			return nil, err
		}
		if files[name], err = content.TarGz("", r.At); err != nil {
			return nil, err
		}
	}
	for _, pkg := range layout.Packages() {
		for _, p := range layout.Linux {
			d, err := r.Deb(pkg, p)
			if err != nil {
				return nil, err
			}
			if files[r.Name(pkg.Name, p, ".deb")], err = d.Bytes(); err != nil {
				return nil, err
			}
			rp, err := r.RPM(pkg, p)
			if err != nil {
				return nil, err
			}
			if files[r.Name(pkg.Name, p, ".rpm")], err = rp.Bytes(); err != nil {
				return nil, err
			}
		}
	}
	for _, image := range r.Images() {
		content, err := image.Layout()
		if err != nil {
			return nil, err
		}
		var archive bytes.Buffer
		if err := content.WriteTar(&archive, "", r.At); err != nil {
			return nil, err
		}
		files[strings.ReplaceAll(image.Tag, ":", "_")+"_oci.tar"] = archive.Bytes()
	}
	text, err := bill(r, built).JSON()
	if err != nil {
		return nil, err
	}
	files[fmt.Sprintf("kolo_%s.spdx.json", r.Version)] = text
	return files, nil
}

func bill(r layout.Release, built []binary) sbom.Document {
	d := sbom.Document{Name: "kolo", Version: string(r.Version), License: layout.License, Supplier: layout.Vendor, At: r.At}
	for _, b := range built {
		d.Programs = append(d.Programs, sbom.Program{
			Name: b.program.Name, OS: b.on.OS, Arch: b.on.Arch, SHA256: fmt.Sprintf("%x", sha256.Sum256(b.body)), Info: b.info,
		})
	}
	return d
}

// write puts the files and their checksums where the release is to be, all or none.
func write(files map[string][]byte, out string) error {
	part := filepath.Clean(out) + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	files["SHA256SUMS"] = sums(files)
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(part, name), body, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(part, out); err != nil {
		return err
	}
	say("%d files in %s", len(files), out)
	return nil
}

// sums is what sha256sum prints of the files.
func sums(files map[string][]byte) []byte {
	var lines []string
	for name, body := range files {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(body), name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return []byte(strings.Join(lines, ""))
}
