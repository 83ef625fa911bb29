// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build tools

// Package nomad pins the Nomad that the tests and the demo build.
package nomad

import _ "github.com/hashicorp/nomad/command"
