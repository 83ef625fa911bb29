// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

const (
	// tellBatchAgain is the time after which a job that still does not know whether it may
	// adapt its batch is told again. Its driver may not be able to read the job's scaling
	// events.
	tellBatchAgain = 10 * time.Minute
	// tellBatchMost is how often it is told. Nomad keeps only the newest events of a job, and
	// those with a count matter more.
	tellBatchMost = 3
	// tellBatchPerRound bounds the jobs that are told in one round.
	tellBatchPerRound = 20
)

// batchState is what is known about a job's permission to adapt its batch.
type batchState struct {
	keeps bool      // its driver knows that it must not
	may   bool      // what its pool last wanted
	told  int       // how often it was told, since it last knew that
	again time.Time // it is not told before this, unless its pool changes
}

// adaptive is a job that adapts its batch and does not know yet whether it may.
type adaptive struct {
	key   identity.JobKey
	group string
	may   bool
}

// unaware returns the jobs that are to be told now whether they may adapt their batch. The
// caller holds c.mu.
func (c *Controller) unaware(v *cluster.View, now time.Time) (out []adaptive) {
	for i := range v.Jobs {
		j, h := &v.Jobs[i], c.job(v.Jobs[i].Key)
		if h == nil || h.training == nil || !h.Adapts || j.Alive() == 0 || len(j.Groups) == 0 {
			continue
		}
		may := c.cfg.Pool(j.Pool).AdaptBatch
		b := &h.batch
		if b.may != may {
			*b = batchState{keeps: b.keeps, may: may}
		}
		switch {
		case b.keeps != may: // it knows
			b.told = 0 // but a driver that forgets it each time is not told at once
		case b.told < tellBatchMost && !b.again.After(now) && len(out) < tellBatchPerRound:
			b.told, b.again = b.told+1, now.Add(tellBatchAgain)
			out = append(out, adaptive{j.Key, j.Groups[0].Name, may})
		}
	}
	return out
}

// tellBatches tells jobs whether their pool lets them adapt their batch.
func (c *Controller) tellBatches(ctx context.Context, v *cluster.View) {
	c.mu.Lock()
	jobs := c.unaware(v, time.Now())
	c.mu.Unlock()
	for _, j := range jobs {
		if err := c.writer.TellBatch(ctx, j.key, j.group, j.may); err != nil {
			c.log.Warn("a job could not be told whether it may adapt its batch", "job", j.key, "error", err)
			continue
		}
		c.log.Info("told a job whether it may adapt its batch", "job", j.key, "may", j.may)
	}
}
