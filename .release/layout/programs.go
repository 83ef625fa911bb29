// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package layout lists the programs and the platforms of a release, and the files of its
// images. It reads no file and starts no program. The files of archives and packages are
// listed in .goreleaser.yaml.
package layout

import "slices"

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

// String returns the platform's name, as used in names of files.
func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Platforms of a release. Nomad clients are Linux; macOS is for those who ask an
// autoscaler or simulate.
var (
	Linux = []Platform{{"linux", "amd64"}, {"linux", "arm64"}}
	MacOS = []Platform{{"darwin", "amd64"}, {"darwin", "arm64"}}
)

// Program is a program of the release. .goreleaser.yaml states how to build it, and
// repeats its package, tags and platforms.
type Program struct {
	Name      string
	Package   string // of Go, within the module
	Summary   string
	Cgo       bool
	Tags      string
	Platforms []Platform
	Alias     string     // a second name, a symbolic link next to it
	Help      [][]string // command lines that print what its manual page has
}

// Programs returns the programs of the release.
func Programs() []Program {
	return []Program{
		{Name: "kolo", Package: "./autoscaler/cmd/kolo", Summary: "autoscaler for elastic training on Nomad", Platforms: slices.Concat(Linux, MacOS)},
		// grpcnotrace: as in `make worker`.
		{Name: "kolo-worker", Package: "./driver/cmd/kolo-worker", Summary: "elastic training as the program of a Nomad task", Tags: "grpcnotrace",
			Platforms: Linux, Help: [][]string{{"-help"}}},
		// Without cgo it cannot isolate tasks.
		{Name: "nomad-driver-horovod", Package: "./driver/cmd/nomad-driver-horovod", Summary: "Nomad task drivers for elastic training", Cgo: true,
			Platforms: Linux, Alias: "nomad-driver-torch", Help: [][]string{{"help"}, {"run", "-help"}}},
		// Calls NVML through cgo.
		{Name: "nomad-device-nvtopo", Package: "./device/cmd/nomad-device-nvtopo", Summary: "Nomad device plugin for NVIDIA GPUs and how they are connected", Cgo: true,
			Platforms: Linux, Help: [][]string{{"help"}}},
	}
}
