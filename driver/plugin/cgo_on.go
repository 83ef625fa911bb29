// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build cgo

package plugin

// withCgo reports whether the executor can isolate: without cgo it silently would
// not.
const withCgo = true
