// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// A job is idle if it holds slots and its training, which answers, makes no step for
// idle_after of its pool. Kolo believes the training: a job that claims steps is not idle,
// and one that reports none never is.

// hear records the answer of a training, if its pool looks for idle jobs. The caller holds
// c.mu.
func (c *Controller) hear(j *job, t target, p *history.Progress, now time.Time) {
	after := c.cfg.Pool(t.pool).IdleAfter
	if after == 0 {
		j.Quiet = nil
		return
	}
	was := j.QuietFor() >= after
	j.Hear(p, now)
	if was != (j.QuietFor() >= after) {
		c.poke()
	}
}

// noteIdle notes whether the job is idle, and what its pool does about that.
func (j *job) noteIdle(pool config.Pool, of *planner.Job) {
	j.idle, j.idleAction = 0, ""
	quiet := j.QuietFor()
	if pool.IdleAfter == 0 || quiet < pool.IdleAfter || of.Alive() == 0 || of.Frozen != "" || j.Frozen {
		return
	}
	j.idle, j.idleSince = quiet, j.Quiet.Since
	if pool.IdleAction != config.IdleNotify {
		j.idleAction = pool.IdleAction
	}
	if j.idleAction == config.IdleSuspend && !of.Preemptible {
		j.idleAction = config.IdleShrink
	}
}

// smallest returns the smallest size with which a job runs.
func smallest(j *planner.Job) int { return j.Sizes.Above(max(1, j.Min) - 1) }

// restrain returns what is wanted for the job if its pool does something about idle jobs,
// given what the policy wants. What the policy takes from the job is taken in any case.
func (j *job) restrain(of *planner.Job, w planner.Want) planner.Want {
	switch least := smallest(of); {
	case j.idleAction == config.IdleSuspend && !w.Stops:
		return planner.Want{Reclaimed: w.Reclaimed, Reason: j.idleReason("is suspended")}
	case j.idleAction == config.IdleShrink && w.Count >= least:
		w.Count, w.Reason = least, j.idleReason("has its minimum until it makes steps again")
	}
	return w
}

// noteSuspension records that the job is about to be suspended because it is idle, or that
// this is no longer so. Once it has no workers, only its user ends the suspension.
func (j *job) noteSuspension(of *planner.Job, version uint64, w planner.Want) {
	switch {
	case j.idleAction != config.IdleSuspend || w.Stops:
		if of.Count() > 0 {
			j.IdleAt = 0
		}
	case j.IdleAt == 0:
		j.IdleAt = version
	}
}

// idleReason returns the reason of a count that the job has because it is idle.
func (j *job) idleReason(so string) string {
	return fmt.Sprintf("it is idle and %s (no step since %s)", so, j.idleSince.UTC().Format(time.DateTime))
}

// reportIdle reports once that a job has become idle. The caller holds c.mu.
func (c *Controller) reportIdle(j *planner.Job) {
	known := c.job(j.Key)
	if known.toldIdle == (known.idle > 0) {
		return
	}
	known.toldIdle = known.idle > 0
	if !known.toldIdle {
		return
	}
	e := jobEvent("idle", j.Key)
	e.From, e.To = j.Count(), j.Count()
	e.Reason = fmt.Sprintf("it made no step for %s", known.idle.Round(time.Second))
	c.events = append(c.events, e)
	c.log.Warn("a job holds slots and makes no step", "job", j.Key, "pool", j.Pool, "for", known.idle.Round(time.Second))
}
