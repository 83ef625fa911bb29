// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package packaging has the files that packages install next to the programs, and the
// scripts that they run.
package packaging

import "embed"

// Files are all of them, by their names in this directory.
//
//go:embed kolo.* environment
var Files embed.FS
