// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

const (
	// jobGC is how long Nomad keeps a dead job by default (job_gc_threshold).
	jobGC = 4 * time.Hour

	// keepRetry is the delay before Kolo tries again to protect a job that could not be
	// tagged and was too young to be protected by a scale.
	keepRetry = 30 * time.Minute

	// untagRetry is the delay before another try to remove a tag.
	untagRetry = time.Minute
)

// noteProtection records until when a waiting job is protected from garbage collection. The
// caller holds c.mu.
func (c *Controller) noteProtection(j *job, done cluster.Written, err error, now time.Time) {
	switch {
	case done.Tagged || done.Steps > 0:
		j.keepUntil = now.Add(jobGC)
	case err == nil:
		// The token may not tag, and it is too early to scale.
		j.keepUntil = now.Add(c.cfg.Planner.GCProtection + keepRetry)
	}
	if done.Tagged && !j.Tagged {
		j.Tagged, j.untagAt = true, time.Time{}
		c.saveSoon() // a tag that is forgotten is never removed
	}
}

// unprotect removes the tags of jobs that were protected while they waited and have since
// started, ended, become ineligible, or disappeared. (Nomad turns scaling.enabled off in
// a job that is stopped.)
func (c *Controller) unprotect(ctx context.Context, v *cluster.View) {
	waiting := map[identity.JobKey]bool{}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		waiting[j.Key] = j.Count() == 0 && j.Frozen == "" && !j.Stopped
	}
	release := map[identity.JobKey]*job{}
	now := time.Now()
	c.mu.Lock()
	for key, h := range c.history.Jobs {
		if !h.Tagged || waiting[key] {
			continue
		}
		if j := c.job(key); !j.untagAt.After(now) {
			release[key] = j
		}
	}
	c.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(requestsAtOnce)
	for key, j := range release {
		g.Go(func() error {
			err := c.writer.Untag(ctx, key)
			if err != nil && cluster.Classify(err) != cluster.Stopped {
				c.log.Warn("a job stays protected from garbage collection", "job", key, "error", err, "retry_in", untagRetry)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			j.Tagged, j.untagAt = err != nil, time.Now().Add(untagRetry)
			return nil
		})
	}
	_ = g.Wait() // errors are the jobs' own
}
