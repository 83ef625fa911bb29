// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// service ranks jobs by discretised attained service, the ordering that
// Tiresias and its elastic form share.
type service struct {
	thresholds []float64 // GPU-seconds, ascending
	starvation float64   // factor; 0 never promotes
	bySubmit   bool
}

// serviceState is what the starvation guard remembers of one job.
type serviceState struct {
	Base float64 `json:"base,omitempty"` // attained service at its last promotion
	Ran  float64 `json:"ran,omitempty"`  // RunTime when its current or last run began
	Idle bool    `json:"idle,omitempty"` // was suspended when last seen
}

// serviceHistory is the guard's memory by job ID. Ended jobs are dropped.
type serviceHistory map[string]serviceState

// advance brings the history up to date with the snapshot and promotes starved jobs.
func (v *service) advance(s *policy.Snapshot) serviceHistory {
	if v.starvation <= 0 {
		return nil
	}
	old, now := load[serviceHistory](s), serviceHistory{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.FirstStart == 0 && j.Attained == 0 {
			continue
		}
		e := old[j.ID]
		switch {
		case j.Count > 0 && e.Idle:
			e.Idle, e.Ran = false, max(0, j.RunTime-(s.Now-j.LastChange))
		case j.Count == 0:
			e.Idle = true
			if run := j.RunTime - e.Ran; run > 0 && s.Now-j.LastChange >= v.starvation*run {
				e.Base, e.Ran = j.Attained, j.RunTime
			}
		}
		now[j.ID] = e
	}
	return now
}

// queue returns the index of the job's queue; queue 0 is served first.
func (v *service) queue(j *policy.Job, l serviceHistory) int {
	attained := j.Attained - l[j.ID].Base
	n, _ := slices.BinarySearchFunc(v.thresholds, attained, func(threshold, a float64) int {
		if threshold <= a {
			return -1
		}
		return 1
	})
	return n
}

// rank orders the jobs of a pool: by queue, then jobs that ran before jobs that
// never did, then by first start or arrival. It also returns the queues, indexed by
// place in the snapshot.
func (v *service) rank(s *policy.Snapshot, p *pool, l serviceHistory) ([]*candidate, []int) {
	queues := make([]int, len(s.Jobs))
	for _, c := range p.jobs {
		queues[c.place] = v.queue(c.Job, l)
	}
	fresh := func(c *candidate) int {
		if c.Attained == 0 {
			return 1
		}
		return 0
	}
	start := func(c *candidate) float64 {
		if v.bySubmit {
			return c.Submit
		}
		return c.FirstStart
	}
	return p.byPriority(func(a, b *candidate) int {
		return cmp.Or(queues[a.place]-queues[b.place], fresh(a)-fresh(b), cmp.Compare(start(a), start(b)), cmp.Compare(a.Submit, b.Submit))
	}), queues
}

// alarms requests a decision for the time at which a running job will cross a
// threshold while others wait, or a waiting one will count as starved.
func (v *service) alarms(s *policy.Snapshot, d *policy.Decision, pools []*pool, l serviceHistory) {
	for _, p := range pools {
		if !p.waiting() {
			continue
		}
		for _, c := range p.jobs {
			e := l[c.ID]
			switch {
			case c.n > 0:
				q := v.queue(c.Job, l)
				if q < len(v.thresholds) {
					requeue(d, s.Now, s.Now+(v.thresholds[q]-(c.Attained-e.Base))/float64(c.cost(c.n)))
				}
			case v.starvation > 0 && c.RunTime > e.Ran:
				since := c.LastChange
				if c.Count > 0 {
					since = s.Now
				}
				requeue(d, s.Now, since+v.starvation*(c.RunTime-e.Ran))
			}
		}
	}
}
