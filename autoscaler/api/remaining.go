// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

// Remaining describes the remaining work of a job, declared or predicted.
type Remaining struct {
	// Origin is the source: one of the origins below, or kind, namespace or pool if the work is
	// predicted from completed jobs of the same kind, namespace or node pool.
	Origin string `json:"origin"`

	// Steps is the number of steps that are left, if the job or its training declares them.
	Steps float64 `json:"steps,omitempty"`

	// Jobs is the number of completed jobs that a prediction is made from. Half of them would
	// need from Low to High further slot-seconds.
	Jobs int     `json:"jobs,omitempty"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Origins of a declared Remaining.
const (
	OriginJob      = "job"      // the job specification declares it
	OriginTraining = "training" // the training reports it
)
