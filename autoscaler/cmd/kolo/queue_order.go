// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// poolQueues has the queues of a node pool, and what waits in them.
type poolQueues struct {
	Pool     string       `json:"pool"`
	Policy   string       `json:"policy"`
	Capacity int          `json:"capacity"`
	Used     int          `json:"used"`
	Queues   []queueRow   `json:"queues"` // each before those inside it
	Jobs     []waitingJob `json:"jobs"`   // that wait, by queue and in order
}

type queueRow struct {
	Name      string `json:"name"`
	Parent    string `json:"parent,omitempty"`
	Guarantee int    `json:"guarantee,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Used      int    `json:"used"`
	Borrowed  int    `json:"borrowed"`
	Waiting   int    `json:"waiting"`

	Decayed *float64       `json:"decayed,omitempty"`
	Budget  *api.BudgetUse `json:"budget,omitempty"`

	depth int
}

type waitingJob struct {
	identity.JobKey
	api.Waits
}

// queuesOf returns the queues of the pools of a status, or of one pool, or one queue and
// those inside it.
func queuesOf(s *api.Status, pool, name string) ([]poolQueues, error) {
	out := []poolQueues{}
	var pools, queues []string
	for i := range s.Pools {
		p := &s.Pools[i]
		pools = append(pools, p.Name)
		if pool != "" && p.Name != pool {
			continue
		}
		rows := queueRows(p)
		for _, q := range rows {
			queues = append(queues, q.Name)
		}
		if name != "" {
			rows = within(rows, name)
		}
		if len(rows) > 0 {
			out = append(out, poolQueues{Pool: p.Name, Policy: p.Policy, Capacity: p.Capacity, Used: p.Used, Queues: rows, Jobs: waitingJobs(s, p.Name, rows)})
		}
	}
	switch {
	case pool != "" && !slices.Contains(pools, pool):
		return nil, fmt.Errorf("there is no node pool %q; there is %s", pool, cmp.Or(strings.Join(pools, ", "), "none"))
	case name != "" && len(out) == 0:
		slices.Sort(queues)
		return nil, fmt.Errorf("there is no queue %q; there is %s", name, cmp.Or(strings.Join(slices.Compact(queues), ", "), "none"))
	}
	return out, nil
}

// queueRows returns the queues of a pool, each before those inside it. The last one has the
// jobs in no queue.
func queueRows(p *api.PoolStatus) (out []queueRow) {
	use := map[string]api.QueueUse{}
	for _, u := range p.Use {
		use[u.Queue] = u
	}
	inside := map[string][]queueRow{}
	for _, q := range p.Queues {
		if q.Name != queue.Any { // its limit is that of each namespace
			inside[q.Parent] = append(inside[q.Parent], queueRow{Name: q.Name, Parent: q.Parent, Guarantee: q.Guarantee, Limit: q.Limit})
		}
	}
	inside[""] = append(inside[""], queueRow{Name: queue.Any})
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, row := range inside[parent] {
			u := use[row.Name]
			row.Used, row.Borrowed, row.Waiting, row.depth = u.Used, u.Borrowed, u.Waiting, depth
			row.Decayed, row.Budget = u.Decayed, u.Budget
			out = append(out, row)
			add(row.Name, depth+1)
		}
	}
	add("", 0)
	return out
}

// within returns the row of a queue and those of the queues inside it.
func within(rows []queueRow, name string) (out []queueRow) {
	depth := -1
	for _, row := range rows {
		switch {
		case row.Name == name:
			depth = row.depth
		case depth >= 0 && row.depth > depth:
		default:
			depth = -1
			continue
		}
		row.depth -= depth
		out = append(out, row)
	}
	return out
}

// waitingJobs returns the jobs that wait in some queues of a pool: by queue, and within it by
// position. Those that have no position come last.
func waitingJobs(s *api.Status, pool string, rows []queueRow) []waitingJob {
	at := map[string]int{}
	for i, row := range rows {
		at[row.Name] = i
	}
	out := []waitingJob{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Waits == nil || j.Pool != pool {
			continue
		}
		if _, shown := at[j.Waits.Queue]; shown {
			out = append(out, waitingJob{j.JobKey, *j.Waits})
		}
	}
	last := func(j *waitingJob) int {
		if j.Position == 0 {
			return len(s.Jobs) + 1
		}
		return j.Position
	}
	slices.SortStableFunc(out, func(a, b waitingJob) int {
		return cmp.Or(cmp.Compare(at[a.Queue], at[b.Queue]), cmp.Compare(last(&a), last(&b)), a.Since.Compare(b.Since))
	})
	return out
}
