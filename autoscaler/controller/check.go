// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"fmt"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// check returns an error for a decision that breaks an invariant. Built-in
// policies are tested for that; those of users are not.
func check(s *policy.Snapshot, d policy.Decision) error {
	if len(d.Allocations) != len(s.Jobs) {
		return fmt.Errorf("it answered for %d jobs of %d", len(d.Allocations), len(s.Jobs))
	}
	total, capacity := 0, 0
	for _, n := range s.Nodes {
		capacity += n.GPUs
	}
	grows := false
	for i, al := range d.Allocations {
		j := &s.Jobs[i]
		switch {
		case al.Job != j.ID:
			return fmt.Errorf("answer %d is about job %s and not %s", i, al.Job, j.ID)
		case al.Count < 0 || al.Count > 0 && (al.Count < j.Min && al.Count != j.Count || al.Count > j.Max && al.Count != j.Count):
			return fmt.Errorf("%d workers for job %s, which takes %d to %d", al.Count, j.ID, j.Min, j.Max)
		}
		grows = grows || al.Count > j.Count
		total += al.Count * max(1, j.PerWorker)
	}
	if math.IsNaN(d.Wake) {
		return errors.New("the time at which it wants to be asked again is not a number")
	}
	if total > capacity && grows {
		return fmt.Errorf("%d slots given out of %d", total, capacity)
	}
	return nil
}
