// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

// Remaining is what is known of the remaining work of a job.
type Remaining struct {
	// Origin is where this is known from: one of the origins below, or kind, namespace or
	// pool for complete jobs of the same kind, namespace or node pool.
	Origin string `json:"origin"`

	// Steps is the number of steps that are left, if the job or its training declares them.
	Steps float64 `json:"steps,omitempty"`

	// Jobs is the number of complete jobs that the range is predicted from, and Low and High
	// are its ends, in slot-seconds: half of similar jobs need a service in the range.
	Jobs int     `json:"jobs,omitempty"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Origins of a declared Remaining.
const (
	OriginJob      = "job"      // the job specification declares it
	OriginTraining = "training" // the training reports it
)
