// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// rotation is the queue of a time-slicing policy between two decisions.
type rotation struct {
	Queue []string `json:"queue"` // job IDs, next turn first
	Since float64  `json:"since"` // start of the current time slice
}

// turn updates the queue. If the time slice is over and jobs wait, it ends the
// slice: the jobs that ran go to the tail. It returns the place of each snapshot
// job in the queue, and whether a slice ended.
func (r *rotation) turn(s *policy.Snapshot, quantum float64) ([]int, bool) {
	index := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		index[s.Jobs[i].ID] = i
	}
	known := make([]bool, len(s.Jobs))
	queue := make([]int, 0, len(s.Jobs))
	for _, id := range r.Queue {
		if i, ok := index[id]; ok && !known[i] {
			known[i] = true
			queue = append(queue, i)
		}
	}
	waiting := false
	for i := range s.Jobs {
		if !known[i] {
			queue = append(queue, i)
		}
		waiting = waiting || s.Jobs[i].Count == 0
	}
	if len(r.Queue) == 0 {
		r.Since = s.Now
	}
	over := waiting && s.Now-r.Since >= quantum
	if over {
		r.Since = s.Now
		slices.SortStableFunc(queue, func(a, b int) int {
			return ran(&s.Jobs[a]) - ran(&s.Jobs[b])
		})
	}
	r.Queue = make([]string, len(queue))
	place := make([]int, len(s.Jobs))
	for at, i := range queue {
		r.Queue[at] = s.Jobs[i].ID
		place[i] = at
	}
	return place, over
}

func ran(j *policy.Job) int {
	if j.Count > 0 {
		return 1
	}
	return 0
}

// slice runs jobs at their preferred size in order of the queue. Within a time
// slice, running jobs stay and gaps are filled.
func (r *rotation) slice(s *policy.Snapshot, d *policy.Decision, pools []*pool, quantum float64) {
	place, over := r.turn(s, quantum)
	waiting := false
	for _, p := range pools {
		if over {
			p.hold(false)
		} else {
			for _, c := range p.jobs {
				// A job grown into idle GPUs counts at its preferred size.
				if n := min(c.floor(c.Count), c.want); n > 0 && p.set(c, n) {
					c.why = "its time slice goes on"
				}
			}
		}
		p.gang(p.byPriority(func(a, b *candidate) int {
			return place[a.place] - place[b.place]
		}), false, "its turn in the queue")
		waiting = waiting || p.waiting()
	}
	if waiting {
		requeue(d, s.Now, r.Since+quantum)
	}
}
