// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package rpm writes RPM packages.
package rpm

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/google/rpmpack"

	"github.com/kolo-nomad/kolo/release/tree"
)

// Package is what an RPM package says of itself and installs.
type Package struct {
	Name, Version, Release string
	Arch                   string // of RPM: x86_64, aarch64
	License                string
	Vendor                 string
	URL                    string
	Requires               []string // such as "glibc >= 2.34"
	Summary                string
	Description            string
	Scripts                Scripts
	Files                  tree.Files
	At                     time.Time // of all files
}

// Scripts are run by /bin/sh before and after files are installed or removed. Their
// argument is the number of versions that are there afterwards.
type Scripts struct{ PostInstall, PreRemove, PostRemove string }

// File types of RPM's headers.
const (
	typeDir  = 0o040000
	typeLink = 0o120000
	typeFile = 0o100000
)

// Bytes is the package.
func (p Package) Bytes() ([]byte, error) {
	r, err := p.pack()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return out.Bytes(), nil
}

func (p Package) pack() (*rpmpack.RPM, error) {
	var requires rpmpack.Relations
	for _, text := range p.Requires {
		if err := requires.Set(text); err != nil {
			return nil, fmt.Errorf("requires %q: %w", text, err)
		}
	}
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: p.Name, Version: p.Version, Release: p.Release, Arch: p.Arch, OS: "linux", Epoch: rpmpack.NoEpoch,
		Vendor: p.Vendor, URL: p.URL, Licence: p.License, Summary: p.Summary, Description: p.Description,
		Requires: requires, BuildTime: p.At, BuildHost: "reproducible", Compressor: "gzip:6",
	})
	if err != nil {
		return nil, err
	}
	seconds := p.At.Unix()
	if seconds < 0 || seconds > math.MaxUint32 {
		return nil, fmt.Errorf("the time %s is none that RPM can write", p.At)
	}
	for _, f := range p.Files {
		r.AddFile(file(f, uint32(seconds)))
	}
	r.AddPostin(p.Scripts.PostInstall)
	r.AddPreun(p.Scripts.PreRemove)
	r.AddPostun(p.Scripts.PostRemove)
	return r, nil
}

func file(f tree.File, at uint32) rpmpack.RPMFile {
	packed := rpmpack.RPMFile{Name: "/" + f.Path, Body: f.Body, Mode: uint(f.Mode.Perm()), Owner: "root", Group: "root", MTime: at}
	switch {
	case f.Mode.IsDir():
		packed.Mode |= typeDir
	case f.Mode&fs.ModeSymlink != 0:
		packed.Mode |= typeLink
		packed.Body = []byte(f.Link)
	default:
		packed.Mode |= typeFile
	}
	if f.Config {
		packed.Type = rpmpack.ConfigFile | rpmpack.NoReplaceFile
	}
	return packed
}
