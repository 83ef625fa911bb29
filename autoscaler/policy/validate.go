// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"fmt"
	"math"
)

// Validate returns an error for a decision that breaks a rule of the snapshot it
// was made for. The error names the job, its count and the rule. The autoscaler and
// the simulator never carry out a decision that Validate refuses, from a built-in
// policy or an external one. The rules are:
//
//   - There is one allocation for each job, in the order of the snapshot.
//   - A count is 0, the current count, or an allowed size between the job's bounds.
//     (The current count may be outside the bounds if a user changed them, or set
//     the count by hand.)
//   - Jobs that grow do so within the capacity: the jobs of one GPU type hold no
//     more GPUs than exist of that type, and all jobs no more than exist in total.
//     A decision that merely keeps counts is valid even after capacity was lost.
func Validate(s *Snapshot, d *Decision) error {
	if len(d.Allocations) != len(s.Jobs) {
		return fmt.Errorf("it answered for %d jobs of %d", len(d.Allocations), len(s.Jobs))
	}
	if math.IsNaN(d.RequeueAt) || math.IsInf(d.RequeueAt, 0) {
		return fmt.Errorf("it wants to be asked again at %v", d.RequeueAt)
	}
	for i := range s.Jobs {
		j, a := &s.Jobs[i], &d.Allocations[i]
		switch {
		case a.Job != j.ID:
			return fmt.Errorf("answer %d is for job %q, want %q", i, a.Job, j.ID)
		case a.Count == 0 || a.Count == j.Count:
		case a.Count < j.Min || a.Count > j.Max:
			return fmt.Errorf("%d workers for job %s: it takes 0, or %d to %d", a.Count, j.ID, j.Min, j.Max)
		case !j.Sizes.Contains(a.Count):
			return fmt.Errorf("%d workers for job %s: its sizes are %v", a.Count, j.ID, j.Sizes)
		}
	}
	return validateCapacity(s, d)
}

// validateCapacity first subtracts the GPUs of jobs that keep or give up workers
// from the capacity. Then it checks that the jobs that ask for more fit into the
// rest.
func validateCapacity(s *Snapshot, d *Decision) error {
	total, byType := 0, map[string]int{}
	for _, n := range s.Nodes {
		total += max(0, n.GPUs)
		byType[n.Type] += max(0, n.GPUs)
	}
	for _, asking := range []bool{false, true} {
		for i := range s.Jobs {
			j, a := &s.Jobs[i], &d.Allocations[i]
			typ := j.Type
			if typ == "" {
				typ = a.Type // for a job that takes any type, the one that the policy names
			}
			moves := typ != "" && j.Held != "" && typ != j.Held
			if a.Count == 0 || asking != (a.Count > j.Count || moves) {
				continue
			}
			need := a.Count * max(1, j.PerWorker)
			switch {
			case asking && typ != "" && need > byType[typ]:
				return fmt.Errorf("%d workers for job %s: they need %d slots of type %q, and %d are left", a.Count, j.ID, need, typ, max(0, byType[typ]))
			case asking && need > total:
				return fmt.Errorf("%d workers for job %s: they need %d slots, and %d are left", a.Count, j.ID, need, max(0, total))
			}
			total -= need
			if typ != "" {
				byType[typ] -= need
			}
		}
	}
	return nil
}
