// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/kolo-nomad/kolo/autoscaler/job/identity"

// PlanRequest is the body of POST /v1/plan: a configuration to plan with.
type PlanRequest struct {
	Pools  string `json:"pools"`            // pool blocks, in HCL
	Policy string `json:"policy,omitempty"` // another policy, "" is that of each pool
}

// Proposal holds the counts that the policy of a node pool would set now.
// The answer to GET /v1/plan contains one Proposal for each pool.
type Proposal struct {
	Pool   string        `json:"pool"`
	Policy string        `json:"policy"`
	Jobs   []ProposedJob `json:"jobs"`

	// Ineligible lists the jobs that would not be scaled because of errors. Some errors are
	// conflicts with the configuration, such as a queue that does not accept a job's namespace.
	Ineligible []IneligibleJob `json:"ineligible,omitempty"`
}

// ProposedJob is one job in a proposal.
type ProposedJob struct {
	Job string `json:"job"` // with the namespace, unless that is "default"
	identity.JobKey
	Count      int    `json:"count"` // now
	Want       int    `json:"want"`
	Write      int    `json:"write"`                  // the count that could be written now
	Spares     int    `json:"spares,omitempty"`       // now, beyond Count
	WriteSpare int    `json:"write_spares,omitempty"` // the spares that could be written now, beyond Write
	Cause      string `json:"cause,omitempty"`
	Move       string `json:"move,omitempty"` // which workers would move, and why
	Reason     string `json:"reason,omitempty"`
	HoldReason string `json:"hold_reason,omitempty"`
}
