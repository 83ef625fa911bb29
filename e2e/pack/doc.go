// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package pack renders the packs of this project for tests. The tests of e2e/container run
// them on a real Nomad.
//
// A pack is a text/template with [[ ]] in place of {{ }}, with sprig's functions and var,
// which returns the value of a variable: https://github.com/hashicorp/nomad-pack,
// docs/writing-packs.md. Render implements this itself, because nomad-pack takes minutes to
// build. If nomad-pack is in bin/tools (make nomad-pack) or on the PATH, a test checks that
// both render the same.
package pack
