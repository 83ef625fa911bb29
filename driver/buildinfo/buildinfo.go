// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package buildinfo describes the build of a program: version, commit, date. All programs
// share it, and it imports none of their packages.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// The linker sets these in a release build, all three or none:
//
//	go build -ldflags "-X github.com/kolo-nomad/kolo/driver/buildinfo.version=1.2.3"
var (
	version = "0.1.0-dev"
	commit  string
	date    string
)

// Version returns the semantic version of this build, without a leading v. Nomad requires
// its plugins to have one.
func Version() string { return version }

// Line returns a program's description of its build: its name, the version, the commit and
// the commit's date if known, the Go release and the platform.
func Line(program string) string {
	info, _ := debug.ReadBuildInfo() // nil if there is none
	return line(program, stamp{commit, date}.or(info))
}

// stamp is the commit that a program was built from, and its date in RFC 3339.
type stamp struct{ commit, date string }

// or returns the stamp or, if it is empty, that of Go's own build info. A build in a
// checkout has one unless -buildvcs=false, with +changes if the checkout was modified.
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
