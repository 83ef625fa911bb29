// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	goversion "go/version"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/sbom"
)

// binary is a program, built for a platform.
type binary struct {
	program layout.Program
	on      layout.Platform
	body    []byte
	info    *debug.BuildInfo
}

// built reads the programs that GoReleaser has built.
func built(dist string) ([]binary, error) {
	var all []binary
	for _, program := range layout.Programs() {
		for _, on := range program.Platforms {
			found, err := filepath.Glob(filepath.Join(dist, "*_"+on.String()+"_*", program.Name))
			if err != nil || len(found) != 1 {
				return nil, fmt.Errorf("%s for %s: want one program below %s, found %q", program.Name, on, dist, found)
			}
			b := binary{program: program, on: on}
			if b.body, err = os.ReadFile(found[0]); err != nil {
				return nil, err
			}
			if b.info, err = buildinfo.Read(bytes.NewReader(b.body)); err != nil {
				return nil, fmt.Errorf("%s: %w", found[0], err)
			}
			if err := b.checkGlibc(layout.Glibc); err != nil {
				return nil, err
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// checkGlibc returns an error for a program that does not run with the oldest glibc that
// its package allows.
func (b *binary) checkGlibc(oldest string) error {
	if !b.program.Cgo {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(b.body))
	if err != nil {
		return fmt.Errorf("%s for %s: %w", b.program.Name, b.on, err)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%s for %s: %w", b.program.Name, b.on, err)
	}
	for _, s := range symbols {
		// GLIBC_2.34; Go's versions have the same order.
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && goversion.Compare("go"+v, "go"+oldest) > 0 {
			return fmt.Errorf("%s for %s needs glibc %s for %s, and packages depend on %s: build on a system as old as Debian 12", b.program.Name, b.on, v, s.Name, oldest)
		}
	}
	return nil
}

// extras writes the files of the release that GoReleaser cannot make next to those that
// it does: container images and the bill of materials.
func extras(s stamp, staged, dist string) error {
	programs, err := built(dist)
	if err != nil {
		return err
	}
	r := layout.Release{
		Version: s.version, Commit: s.commit, At: s.at, Roots: roots(),
		Binaries: map[string]map[layout.Platform][]byte{}, Licenses: map[layout.Platform]string{},
	}
	for _, b := range programs {
		if r.Binaries[b.program.Name] == nil {
			r.Binaries[b.program.Name] = map[layout.Platform][]byte{}
		}
		r.Binaries[b.program.Name][b.on] = b.body
		text, err := os.ReadFile(thirdParty(staged, b.on))
		if err != nil {
			return err
		}
		r.Licenses[b.on] = string(text)
	}
	for _, image := range r.Images() {
		content, err := image.Layout()
		if err != nil {
			return err
		}
		var archive bytes.Buffer
		if err := content.WriteTar(&archive, r.At); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, strings.ReplaceAll(image.Tag, ":", "_")+"_oci.tar"), archive.Bytes(), 0o644); err != nil {
			return err
		}
	}
	text, err := bill(r, programs).JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, fmt.Sprintf("kolo_%s.spdx.json", r.Version)), text, 0o644)
}

// roots returns the certificates of public authorities, those that Mozilla trusts. Those
// that it trusts with constraints, which PEM cannot express, are left out.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a bytes.Buffer does not fail
		}
	}
	return out.Bytes()
}

func bill(r layout.Release, programs []binary) sbom.Document {
	d := sbom.Document{Name: "kolo", Version: string(r.Version), License: layout.License, Supplier: layout.Vendor, At: r.At}
	for _, b := range programs {
		d.Programs = append(d.Programs, sbom.Program{
			Name: b.program.Name, OS: b.on.OS, Arch: b.on.Arch, SHA256: fmt.Sprintf("%x", sha256.Sum256(b.body)), Info: b.info,
		})
	}
	return d
}
