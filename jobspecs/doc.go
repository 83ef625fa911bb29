// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package jobspecs holds no code: this directory has job specifications and
// agent configurations that run as they stand, and tests that they do.
package jobspecs
