// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || !amd64

package remotecall

import "errors"

var errArchitecture = errors.New("not built for this architecture")

// Possible returns an error, because Shutdown does not work here.
func Possible() error { return errArchitecture }

// Shutdown returns an error.
func Shutdown(int, []int) (int, error) { return 0, errArchitecture }
