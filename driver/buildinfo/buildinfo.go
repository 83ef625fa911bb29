// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package buildinfo is the build that a program is from: version, commit, date. It is
// the one package that all programs share; it imports nothing of theirs.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker when a release is built, all three or none:
//
//	go build -ldflags "-X github.com/kolo-nomad/kolo/driver/buildinfo.version=1.2.3"
var (
	version = "0.1.0-dev"
	commit  string
	date    string
)

// Version is the semantic version of this build, without a v before it. Nomad requires
// one of its plugins.
func Version() string { return version }

// Line is what a program prints of its build: its name, the version, the commit and the
// commit's date where they are known, the Go release and the platform.
func Line(program string) string {
	info, _ := debug.ReadBuildInfo() // nil without one
	return line(program, stamp{commit, date}.or(info))
}

// stamp is the commit that a program was built from, and its date in RFC 3339.
type stamp struct{ commit, date string }

// or returns the stamp, or where it is empty, that of Go's own build info: a build in a
// checkout has it unless -buildvcs=false, and +changes where the checkout had any.
func (s stamp) or(info *debug.BuildInfo) stamp {
	if s.commit != "" || info == nil {
		return s
	}
	modified := false
	for _, set := range info.Settings {
		switch set.Key {
		case "vcs.revision":
			s.commit = set.Value
		case "vcs.time":
			s.date = set.Value
		case "vcs.modified":
			modified = set.Value == "true"
		}
	}
	s.commit = s.commit[:min(12, len(s.commit))]
	if modified {
		s.commit += "+changes"
	}
	return s
}

func line(program string, s stamp) string {
	var parts []string
	if s.commit != "" {
		parts = append(parts, "commit "+s.commit)
	}
	if s.date != "" {
		parts = append(parts, s.date)
	}
	parts = append(parts, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return fmt.Sprintf("%s %s (%s)", program, version, strings.Join(parts, ", "))
}
