// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// A job is idle if it holds slots and its training answers, but has made no step for the
// idle_after of its pool. Kolo believes the training: a job that claims steps is not idle,
// and a job whose training answers, but has never reported a step, is never idle. A job
// whose training does not answer is judged by its GPUs.

// hear records the answer of a training, if its pool has idle_after. The caller holds
// c.mu.
func (c *Controller) hear(j *job, t target, p *history.Progress, now time.Time) {
	j.answered = true
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

// noteIdle records whether the job is idle, and what its pool does about idle jobs.
func (j *job) noteIdle(pool config.Pool, of *planner.Job) {
	j.idle, j.idleBy, j.idleAction = 0, "", ""
	if of.Alive() == 0 {
		j.answered, j.gpus = false, unusedGPUs{}
	}
	quiet, since, by := j.QuietFor(), time.Time{}, api.IdleBySteps
	switch {
	case j.Quiet != nil:
		since = j.Quiet.Since
	case !j.answered:
		quiet, since, by = j.gpus.length(), j.gpus.since, api.IdleByGPUs
	}
	if pool.IdleAfter == 0 || quiet < pool.IdleAfter || of.Alive() == 0 || of.Frozen != "" || j.Frozen {
		return
	}
	j.idle, j.idleSince, j.idleBy = quiet, since, by
	if pool.IdleAction != config.IdleNotify {
		j.idleAction = pool.IdleAction
	}
	if j.idleAction == config.IdleSuspend && !of.Preemptible {
		j.idleAction = config.IdleShrink
	}
}

// smallest returns the smallest size with which a job runs.
func smallest(j *planner.Job) int { return j.Sizes.Above(max(1, j.Min) - 1) }

// restrain returns the wanted count of the job if its pool does something about idle jobs.
// The result is never more than the policy wants.
func (j *job) restrain(of *planner.Job, w planner.Want) planner.Want {
	switch least := smallest(of); {
	case j.idleAction == config.IdleSuspend && !w.Stops:
		return planner.Want{Reclaimed: w.Reclaimed, Reason: j.idleReason("is suspended")}
	case j.idleAction == config.IdleShrink && w.Count >= least:
		until := "until it makes steps again"
		if j.idleBy == api.IdleByGPUs {
			until = "until its GPUs are used again"
		}
		w.Count, w.Reason = least, j.idleReason("has its minimum "+until)
	}
	return w
}

// noteSuspension records whether the job is about to be suspended because it is idle.
// After it has lost its workers, only its user can end the suspension.
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

// idleReason returns the reason for a count that the job gets because it is idle.
func (j *job) idleReason(so string) string {
	why := "no step since"
	if j.idleBy == api.IdleByGPUs {
		why = "its GPUs were idle since"
	}
	return fmt.Sprintf("it is idle and %s (%s %s)", so, why, j.idleSince.UTC().Format(time.DateTime))
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
	what := "it made no step for"
	if known.idleBy == api.IdleByGPUs {
		what = "its GPUs were idle for"
	}
	e.Reason = fmt.Sprintf("%s %s", what, known.idle.Round(time.Second))
	c.events = append(c.events, e)
	c.log.Warn("a job holds slots and does not use them", "job", j.Key, "pool", j.Pool, "reason", e.Reason)
}
