// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package nodump

// Set does nothing: only the command line is for other systems than Linux.
func Set() error { return nil }
