// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// reportsPerRound bounds the number of jobs whose problems are reported in one round, so
// that a tenant with thousands of such jobs does not delay others.
const reportsPerRound = 20

// report reports problems of jobs to their users. Each problem is reported once while it
// persists and this autoscaler runs.
func (c *Controller) report(ctx context.Context, ineligible []cluster.IneligibleJob) {
	has := map[identity.JobKey]bool{}
	for _, s := range ineligible {
		has[s.Key] = len(s.Problems) > 0
	}
	c.mu.Lock()
	maps.DeleteFunc(c.reported, func(k identity.JobKey, _ string) bool { return !has[k] })
	c.mu.Unlock()
	reports := 0
	for _, s := range ineligible {
		if s.Off || len(s.Problems) == 0 {
			continue
		}
		text := s.Problems.Text()
		c.mu.Lock()
		known := c.reported[s.Key] == text
		if !known && reports < reportsPerRound {
			c.reported[s.Key] = text
		}
		c.mu.Unlock()
		if known {
			continue
		}
		if reports++; reports > reportsPerRound {
			c.poke() // the others follow in the next round
			return
		}
		c.log.Warn("job not scaled", "job", s.Key, "problems", strings.ReplaceAll(text, "\n", " | "))
		e := jobEvent("problem", s.Key)
		e.Reason = text
		c.publish(e)
		if err := c.writer.Report(ctx, s); err != nil {
			c.log.Warn("the job's problems could not be reported in Nomad", "job", s.Key, "error", err)
		}
	}
}
