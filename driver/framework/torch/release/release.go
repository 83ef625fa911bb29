// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package release knows which releases of PyTorch kolo.torch works with.
package release

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// The oldest release.
const (
	leastMajor = 2
	leastMinor = 1
)

// Check returns an error for a version that is too old. It accepts a version that
// it can't parse.
func Check(version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	known := errA == nil && errB == nil
	if !known || a > leastMajor || a == leastMajor && b >= leastMinor {
		return nil
	}
	return fmt.Errorf("PyTorch %s is too old: kolo.torch needs %d.%d", plaintext.Line(version, 32), leastMajor, leastMinor)
}
