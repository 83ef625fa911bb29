// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package registry makes policies by name: it reads their options from HCL, a
// block of a configuration file or one line, and describes them to users.
//
//	tiresias(thresholds=[57600], starvation=0)
//	   │                │
//	 name            options ──(hcl and doc tags of a struct)──> policy.Policy
//
// It knows no policy itself; builtin.Policies is a List of those that Kolo ships.
// Lines come from anyone who may call the API, so that what a line costs is
// bounded before HCL's parser sees it.
package registry
