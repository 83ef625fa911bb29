// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"math"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// Shortage is the number of workers that one job lacks because there is no room.
type Shortage struct {
	Job     int // index in Cluster.Jobs
	Workers int
	Waiting bool // the job has no workers, and this plan gives it none
}

// Shortages returns how many workers each job lacks because there is no room: the workers
// that the policy would add if there were ample room, and the wanted workers for which the
// plan found no room. ample[i] is the count that the policy would want for c.Jobs[i] with
// ample room. Jobs that lack no workers are omitted, and so are jobs that are frozen,
// held, unhealthy or changed manually.
func Shortages(c *Cluster, wants []Want, ample []int, p *Plan, now time.Time) []Shortage {
	shortfall, given := p.shortfalls(), p.given()
	var out []Shortage
	for j := range c.Jobs {
		job := &c.Jobs[j]
		if job.Frozen != "" || job.HoldReason != "" || job.UnhealthyReason != "" || job.ManualUntil.After(now) {
			continue
		}
		n := max(0, job.allowed(ample[j])-job.allowed(wants[j].Count)) + shortfall[job.Key]
		if n > 0 {
			out = append(out, Shortage{Job: j, Workers: n, Waiting: job.Count() == 0 && given[job.Key] == 0})
		}
	}
	return out
}

// shortfalls returns how many workers of each job find no room.
func (p *Plan) shortfalls() map[identity.JobKey]int {
	out := map[identity.JobKey]int{}
	for i := range p.Waits {
		out[p.Waits[i].Job] = max(out[p.Waits[i].Job], p.Waits[i].Shortfall)
	}
	return out
}

// given returns how many workers each job has by the plan, for jobs that the plan changes.
func (p *Plan) given() map[identity.JobKey]int {
	out := make(map[identity.JobKey]int, len(p.Actions))
	for i := range p.Actions {
		out[p.Actions[i].Job] = p.Actions[i].To
	}
	return out
}

// noteShortfall sets the Shortfall of the last wait.
func (b *planBuilder) noteShortfall(n int) { b.lastWait().Shortfall = n }

func (b *planBuilder) lastWait() *Wait { return &b.plan.Waits[len(b.plan.Waits)-1] }

// lacks returns why there is no room for a job to start.
func (b *planBuilder) lacks(j int) waiting.Reason {
	job := &b.Jobs[j]
	if job.Ratio != nil {
		if b.capacity.pool[job.Pool] < job.slots(job.smallest()) {
			return waiting.NoRoom
		}
		return waiting.Fragmented
	}
	need, worker := job.smallest(), math.MaxInt
	for g := range job.Groups {
		worker = min(worker, job.Groups[g].Need.Slots)
	}
	switch {
	case b.capacity.pool[job.Pool] < need*worker:
		return waiting.NoRoom
	case !b.couldHold(job, need):
		return waiting.Constraint
	}
	return waiting.Fragmented
}

// couldHold reports whether the slots of the places that a job may use are enough for n
// workers, regardless of the workers that are there.
func (b *planBuilder) couldHold(job *Job, n int) bool {
	for g := range job.Groups {
		group := &job.Groups[g]
		if group.Class == nil {
			continue
		}
		for _, at := range group.Class.Places {
			if b.Nodes[at.Node].State == Ready {
				n -= max(0, b.Nodes[at.Node].Bins[at.Bin].Slots) / group.Need.Slots
			}
			if n <= 0 {
				return true
			}
		}
	}
	return false
}
