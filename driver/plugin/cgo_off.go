// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build !cgo

package plugin

const withCgo = false
