// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

// Policies is the answer to GET /v1/policy.
type Policies struct {
	Configured map[string]string `json:"configured"` // by node pool; "*" applies to all others
	Set        map[string]string `json:"set"`        // by users at run time
	BuiltIn    []string          `json:"built_in"`
	External   []string          `json:"external,omitempty"` // programs in policy_dir
}

// SetPolicy is the body of PUT /v1/policy.
type SetPolicy struct {
	Pool   string `json:"pool"`
	Policy string `json:"policy"` // name, or name(option=value, …); "" restores the configured one
}

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error"`
}
