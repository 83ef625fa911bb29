// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry creates policies by name from options in HCL, and describes them to
// users. Options come from a block of a configuration file or from a single line:
//
//	tiresias(thresholds=[57600], starvation=0)
//	   │                │
//	 name            options ──(hcl and doc tags of a struct)──> policy.Policy
//
// The package knows no policy itself; builtin.Policies is the List of the policies
// that Kolo ships. Anyone who may call the API can send a line. Therefore the cost of
// a line is bounded before HCL's parser sees it.
package registry
