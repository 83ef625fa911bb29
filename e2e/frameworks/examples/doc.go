// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package examples runs docs/examples as they stand there, as jobs of a real Nomad that
// grow, lose a process and shrink: make examples. What the model has learned from is
// compared with a training of a fixed size.
package examples
