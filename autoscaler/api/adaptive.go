// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import "fmt"

// Adaptive describes the batch of a job that adapts it, as the job's training reports it.
// Sizes are in samples of all ranks.
type Adaptive struct {
	Initial      float64 `json:"initial"` // for which the learning rate is meant
	Batch        float64 `json:"batch"`
	Accumulation float64 `json:"accumulation"` // forward passes of each rank in a step
	Efficiency   float64 `json:"efficiency"`   // what a sample contributes, relative to one of the initial batch
	LRFactor     float64 `json:"lr_factor"`    // of the learning rate
	// Kept states that the job knows that it must keep its initial batch.
	Kept bool `json:"kept,omitempty"`
}

// Sentence describes the batch.
func (a *Adaptive) Sentence() string {
	passes, kept := "1 pass", ""
	if a.Accumulation != 1 {
		passes = fmt.Sprintf("%.0f passes", a.Accumulation)
	}
	if a.Kept {
		kept = "; its node pool does not let it adapt"
	}
	return fmt.Sprintf("%.0f samples (initially %.0f) in %s of each rank, efficiency %.0f %%, learning rate × %.3g%s", a.Batch, a.Initial, passes, 100*a.Efficiency, a.LRFactor, kept)
}
