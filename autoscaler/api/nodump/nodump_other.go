// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package nodump

import (
	"fmt"
	"runtime"
)

// Set returns an error: on this system, processes of one user can read each other's
// environment.
func Set() error { return fmt.Errorf("%s has no PR_SET_DUMPABLE", runtime.GOOS) }
