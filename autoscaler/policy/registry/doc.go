// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry creates policies by name. It reads their options from HCL,
// either a block of a configuration file or a single line, and describes them to
// users.
//
//	tiresias(thresholds=[57600], starvation=0)
//	   │                │
//	 name            options ──(hcl and doc tags of a struct)──> policy.Policy
//
// The package knows no policy itself; builtin.Policies is a List of those that Kolo
// ships. Anyone who may call the API can send a line. Therefore the cost of a line
// is bounded before HCL's parser sees it.
package registry
