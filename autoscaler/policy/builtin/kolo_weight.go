// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

const (
	// waitPrior is added to a job's past and expected run time before its waiting time is
	// compared with the sum. Without it, short jobs would be urgent at once.
	waitPrior = 600

	// farBeyond is how many times the ordinary wait a job must have waited before patience
	// acts.
	farBeyond = 3

	// declaredCeiling multiplies the ceiling for declared remaining work, which distinguishes
	// long jobs better than attained service does.
	declaredCeiling = 4

	// margin is the fraction of its value that a running job of unknown length bids in addition
	// for the GPUs that it holds. Without it, jobs of the same length would take turns. Each
	// turn costs two resizes, and all jobs would end later.
	margin = 0.2
)

// weight returns the factor of a job's value. For jobs of unknown length, waiting raises
// it without bound, and reduces the influence of attained service.
func (k kolo) weight(s *policy.Snapshot, p *pool, c *candidate) float64 {
	var starved, length float64
	if left, known := c.left(); known {
		left = max(left, 0)
		length = left/(1+left/(declaredCeiling*k.Ceiling)) + k.Prior
	} else {
		if k.Patience > 0 {
			rest, trust := c.Alike.Left(max(0, c.Attained))
			own := c.RunTime + waitPrior + trust*rest/float64(c.cost(c.low))
			starved = max(0, c.waited(s.Now)-farBeyond*p.ordinary) / (k.Patience * own)
		}
		service := max(0, c.Attained*max(0, 1-starved))
		length = service / (1 + service/k.Ceiling)
		if rest, trust := c.Alike.Left(service); trust > 0 {
			length += trust * (rest/(1+rest/k.Ceiling) - length)
		}
		length += k.Prior
	}
	return c.weight() * (1 + starved) * math.Pow(length, -k.Age*(1-k.Tail))
}

// waited returns how long the job has been without workers.
func (c *candidate) waited(now float64) float64 { return max(0, now-c.Submit-c.RunTime) }

// ordinaryWait returns the median of the times for which the running jobs have waited. In a
// burst of similar jobs, long waits are normal and no sign of starvation.
func (p *pool) ordinaryWait(now float64) float64 {
	var waits []float64
	for _, c := range p.jobs {
		if c.Count > 0 {
			waits = append(waits, c.waited(now))
		}
	}
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	return waits[(len(waits)-1)/2]
}
