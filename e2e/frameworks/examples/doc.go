// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package examples runs the scripts of docs/examples unchanged, as jobs of a real Nomad
// that grow, lose a process and shrink: make examples. It compares the samples that the
// model has learned from with those of a training of a fixed size.
package examples
