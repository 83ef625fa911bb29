// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// job is a job's history, with state that need not outlive this autoscaler.
type job struct {
	*history.Job

	keepUntil time.Time // until then, protected from garbage collection
	untagAt   time.Time // the tag is not removed before this time

	retryAt    time.Time // earliest repetition of a failed write
	retries    int
	writeError string

	endpoint      cluster.Endpoint // of the driver's agent that answers for the job
	askedAt       time.Time        // start of the probe that returned the last report
	ranks         map[string]int   // rank of each live allocation that has exactly one; nil if unknown
	completeUntil time.Time        // until then, the training's report of its completion counts

	answered   bool          // its training has answered since the job had no workers
	gpus       unusedGPUs    // for how long its GPUs were unused at each reading
	idle       time.Duration // for how long it has not used its slots, if it is idle; else 0
	idleBy     string        // api.IdleBySteps or api.IdleByGPUs, if it is idle
	idleSince  time.Time     // its last use of its slots
	idleAction string        // of its pool, if it is idle and not only to be reported
	toldIdle   bool          // there was an event about it

	straggler *straggler // nil if no rank makes the others wait
	promise   promise
	stalls    stalls
	spares    spareState
	batch     batchState

	wasAlive bool             // the job has had workers since it last failed
	series   *timeline.Series // reports of its training
	training *api.Training    // the last report; nil if there is none
}

// job returns the state of a job that has a history, else nil. The caller holds c.mu.
func (c *Controller) job(key identity.JobKey) *job {
	h := c.history.Jobs[key]
	if h == nil {
		return nil
	}
	j := c.jobs[key]
	if j == nil || j.Job != h { // the job was registered again, or the history is another leader's
		old := j
		j = &job{Job: h, series: &timeline.Series{}}
		if old != nil && old.Created == h.Created {
			j.series, j.training = old.series, old.training
			j.promise, j.stalls = old.promise, old.stalls
		}
		c.jobs[key] = j
	}
	return j
}

// kindKey returns the key of a job's kind.
func kindKey(key identity.JobKey, f *cluster.Facts) string { return history.KindKey(key, f.Spec.Kind) }

// groupOf returns the sets of jobs that a job's attained service is compared with.
func groupOf(j *planner.Job, f *cluster.Facts) history.Group {
	return history.GroupOf(kindKey(j.Key, f), j.Pool)
}

// failed records that a write failed, and when to try again: soon if Nomad did not answer,
// later if it refused.
func (j *job) failed(now time.Time, class cluster.ErrorClass, err error) {
	first, most := time.Second, time.Minute
	if class == cluster.Away {
		first, most = 250*time.Millisecond, 15*time.Second
	}
	j.retries++
	j.retryAt = now.Add(min(first<<min(j.retries-1, 6), most))
	j.writeError = fmt.Sprintf("%s: %v", class, err)
}
