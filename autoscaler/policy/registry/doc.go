// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry creates policies by name. It reads their options from HCL,
// either a block of a configuration file or a single line, and describes them to
// users.
package registry
