// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// SeparateSpares subtracts spares from the counts of a job, which are as written in Nomad, and
// takes the workers that count as spares out of Live. A group that lacks workers lacks spares
// first, because the driver replaces a lost worker by a spare.
func (c *Cluster) SeparateSpares(j int, spares map[string]int) {
	for g := range c.Jobs[j].Groups {
		group := &c.Jobs[j].Groups[g]
		group.Spare = min(max(0, spares[group.Name]), group.Count)
		group.Count -= group.Spare
		group.Max -= group.Spare
		stay := 0
		for _, w := range group.Live {
			if !w.Ending {
				stay++
			}
		}
		for range min(group.Spare, stay-group.Count) {
			// Nomad stops the newest workers first.
			i := len(group.Live) - 1
			for group.Live[i].Ending {
				i--
			}
			group.Spares = append(group.Spares, group.Live[i])
			group.Live = slices.Delete(slices.Clone(group.Live), i, i+1)
		}
	}
}

// admit lets spares of jobs that lack room for growth train. That takes no more room.
func (b *planBuilder) admit(spares [][]int) {
	jobs := b.index()
	for i := range b.plan.Waits {
		w := &b.plan.Waits[i]
		j := jobs[w.Job]
		at := slices.IndexFunc(b.plan.Actions, func(a Action) bool { return a.Job == w.Job })
		if b.Jobs[j].Count() == 0 || !b.free(j) || b.acted[j] && (at < 0 || b.plan.Actions[at].Cause != Grow) {
			continue
		}
		job, counts := &b.Jobs[j], b.Jobs[j].counts()
		if at >= 0 {
			for _, s := range b.plan.Actions[at].Steps {
				counts[job.group(s.Group)] = s.To
			}
		}
		has := sum(counts)
		n := job.allowed(has+min(w.Shortfall, job.HeldSpares())) - has
		if n <= 0 {
			continue
		}
		for g, left := 0, n; g < len(counts); g++ {
			k := min(left, spares[j][g])
			counts[g] += k
			spares[j][g] -= k
			left -= k
		}
		a := b.action(j, counts, Grow, b.wants[j].Reason)
		if at >= 0 {
			b.plan.Actions[at] = a
		} else {
			b.act(j, a)
		}
		w.Shortfall -= n
		if w.Want <= has+n {
			w.Job = identity.JobKey{} // it waits no longer
		}
	}
	b.plan.Waits = slices.DeleteFunc(b.plan.Waits, func(w Wait) bool { return w.Job == identity.JobKey{} })
}

// write completes the steps of actions by spares, and adds the actions that change only spares.
func (b *planBuilder) write(spares [][]int, why []string) {
	acts := map[identity.JobKey]int{}
	for i := range b.plan.Actions {
		acts[b.plan.Actions[i].Job] = i
	}
	for j := range b.Jobs {
		job := &b.Jobs[j]
		i, acts := acts[job.Key]
		switch {
		case !job.keepsSpares():
		case acts:
			b.complete(j, &b.plan.Actions[i], spares[j])
		case why[j] != "":
			a := Action{Job: job.Key, Index: job.Index, Cause: Spare, Reason: why[j], From: job.Count(), To: job.Count()}
			b.complete(j, &a, spares[j])
			b.act(j, a)
		}
	}
}

// complete adds spares to an action's steps.
func (b *planBuilder) complete(j int, a *Action, spares []int) {
	job := &b.Jobs[j]
	a.Spares = map[string]int{}
	for g := range job.Groups {
		group := &job.Groups[g]
		k := slices.IndexFunc(a.Steps, func(s Step) bool { return s.Group == group.Name })
		if k < 0 && spares[g] != group.Spare {
			k = len(a.Steps)
			a.Steps = append(a.Steps, Step{Group: group.Name, From: group.Count, To: group.Count})
		}
		if k >= 0 {
			a.Steps[k].From += group.Spare
			a.Steps[k].To += spares[g]
			a.Spares[group.Name] = spares[g]
		}
	}
	slices.SortStableFunc(a.Steps, func(x, y Step) int { return (x.To - x.From) - (y.To - y.From) })
}

// Releases reports whether the action only gives slots back.
func (a *Action) Releases() bool {
	return len(a.Steps) > 0 && !slices.ContainsFunc(a.Steps, func(s Step) bool { return s.To >= s.From })
}
