// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"
	"time"
)

// Straggler is the rank of a job that makes the others wait, as the job's training reports it.
type Straggler struct {
	Rank    int       `json:"rank"`
	AllocID string    `json:"alloc_id"`
	Node    string    `json:"node"`           // name
	Share   float64   `json:"share"`          // part of the recent steps in which it came last
	Behind  float64   `json:"behind_seconds"` // in these steps, after the median of the other ranks
	Since   time.Time `json:"since"`          // when this autoscaler first heard of it
}

// Sentence describes a straggler.
func (s *Straggler) Sentence() string {
	behind := fmt.Sprintf("%.0f ms", s.Behind*1000)
	if s.Behind >= 10 {
		behind = fmt.Sprintf("%.0f s", s.Behind)
	}
	return fmt.Sprintf("rank %d on node %s comes last in %.0f %% of steps, %s after the median", s.Rank, s.Node, 100*s.Share, behind)
}
