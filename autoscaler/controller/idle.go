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

// idleFor returns for how long a job has made no step, if it is idle; else 0.
func idleFor(pool config.Pool, j *planner.Job, h *history.Job) time.Duration {
	if quiet := h.QuietFor(); pool.IdleAfter > 0 && quiet >= pool.IdleAfter && j.Alive() > 0 && j.Frozen == "" && !h.Frozen {
		return quiet
	}
	return 0
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
