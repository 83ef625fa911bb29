// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package version derives the version of a release from the nearest tag in git.
package version

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Untagged is the version of the first release. Until a tag exists, builds are its
// development versions (0.1.0-dev.n).
const Untagged = "0.1.0"

var (
	// tag is vX.Y.Z with at most a pre-release: build metadata has no place in the
	// version of a package or in the tag of an image.
	tag      = regexp.MustCompile(`^v((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.)(0|[1-9]\d*)(-[0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)?$`)
	describe = regexp.MustCompile(`^(.+)-(\d+)-g[0-9a-f]+(-dirty)?$`)
)

// Version is a semantic version without a v before it.
type Version string

// Describe derives a version from the output of `git describe --tags --long --dirty
// --match 'v[0-9]*'`. For a commit with a tag, it is the tag's version. For the n-th
// commit after v1.2.3, it is 1.2.4-dev.n, which sorts before every later release.
// Uncommitted changes add .dirty.
func Describe(out string) (Version, error) {
	m := describe.FindStringSubmatch(strings.TrimSpace(out))
	if m == nil {
		return "", fmt.Errorf("git describe printed %q: want <tag>-<commits>-g<commit>", out)
	}
	t := tag.FindStringSubmatch(m[1])
	if t == nil {
		return "", fmt.Errorf("the tag %s is no version: name it v1.2.3 or v1.2.3-rc.1", m[1])
	}
	commits, dirty := m[2], m[3] != ""
	if commits == "0" && !dirty {
		return Version(t[1] + t[2] + t[3]), nil
	}
	base := t[1] + t[2] + t[3]
	if t[3] == "" {
		patch, err := strconv.Atoi(t[2])
		if err != nil {
			return "", fmt.Errorf("the tag %s: %w", m[1], err)
		}
		base = t[1] + strconv.Itoa(patch+1)
	}
	return development(base, commits, dirty), nil
}

// FromCommits returns the version of a repository without a tag: a development
// version of Untagged.
func FromCommits(commits int, dirty bool) Version {
	return development(Untagged, strconv.Itoa(commits), dirty)
}

func development(base, commits string, dirty bool) Version {
	sep := "-"
	if strings.Contains(base, "-") {
		sep = "." // a pre-release already
	}
	v := base + sep + "dev." + commits
	if dirty {
		v += ".dirty"
	}
	return Version(v)
}

// Package returns the version in the syntax of Debian and RPM, in which a tilde
// sorts a pre-release before its release.
func (v Version) Package() string { return strings.Replace(string(v), "-", "~", 1) }
