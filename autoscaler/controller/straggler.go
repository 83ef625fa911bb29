// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

const (
	// stragglerAfter is the time for which a rank is a straggler before there is an event.
	stragglerAfter = 5 * time.Minute
	// stragglerGap is the longest time without a report of a straggler that does not end this
	// time. A new ring has no straggler in its first steps.
	stragglerGap = time.Minute
)

// straggler is the allocation whose rank makes the others of its job wait.
type straggler struct {
	api.Straggler
	heard time.Time // when it was last reported
	now   bool      // the last report of the training named it
	told  bool      // there was an event about it
}

// hearStraggler records which rank the last report of a training names. A report can only
// name an allocation of the job itself. The caller holds c.mu.
func (c *Controller) hearStraggler(j *job, key identity.JobKey, got *history.Straggler, now time.Time) {
	node, known := "", false
	if got != nil {
		node, known = c.watcher.NodeOf(key, got.AllocID)
	}
	switch s := j.straggler; {
	case !known:
		if s != nil {
			s.now = false
		}
		return
	case s == nil || s.AllocID != got.AllocID || now.Sub(s.heard) > stragglerGap:
		j.straggler = &straggler{Straggler: api.Straggler{AllocID: got.AllocID, Since: now}}
	}
	s := j.straggler
	s.Rank, s.Node, s.Share, s.Behind = got.Rank, node, got.Share, got.Behind
	s.heard, s.now = now, true
}

// reportStraggler emits an event once a rank has been a straggler for a while. The caller
// holds c.mu.
func (c *Controller) reportStraggler(j *planner.Job, now time.Time) {
	known := c.job(j.Key)
	s := known.straggler
	switch {
	case s == nil:
		return
	case now.Sub(s.heard) > stragglerGap || j.Alive() == 0:
		known.straggler = nil
		return
	case s.told || !s.now || s.heard.Sub(s.Since) < stragglerAfter:
		return
	}
	s.told = true
	e := jobEvent("straggler", j.Key)
	e.From, e.To, e.Reason = j.Count(), j.Count(), s.Sentence()
	c.events = append(c.events, e)
	c.log.Warn("a rank makes the others of its job wait", "job", j.Key, "rank", s.Rank, "node", s.Node, "share", s.Share, "behind_seconds", s.Behind)
}

// stragglerNow returns the straggler that the last report of the training named, or nil.
func (j *job) stragglerNow() *api.Straggler {
	if j.straggler == nil || !j.straggler.now {
		return nil
	}
	s := j.straggler.Straggler
	return &s
}
