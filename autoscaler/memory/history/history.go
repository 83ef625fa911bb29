// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// History is what is remembered of all jobs. It is not safe for concurrent use.
type History struct {
	Jobs   map[identity.JobKey]*Job
	Kinds  map[string]*Kind  // how kinds of jobs scale, by KindKey
	States map[string][]byte // what policies asked to be given back, by node pool
}

// New is an empty history.
func New() *History {
	return &History{Jobs: map[identity.JobKey]*Job{}, Kinds: map[string]*Kind{}, States: map[string][]byte{}}
}

// jobTTL is how long a job that is gone is remembered.
const jobTTL = time.Hour

// KindKey names the jobs of a namespace that are of one kind.
func KindKey(k identity.JobKey, kind string) string { return k.Namespace + "/" + kind }

// Namespace is that of a kind's KindKey: its own name has no slash.
func Namespace(kind string) string {
	namespace, _, _ := strings.Cut(kind, "/")
	return namespace
}

// Job returns a job's history, which begins with the first observation of it.
func (h *History) Job(key identity.JobKey, o *Observation, now time.Time) *Job {
	j := h.Jobs[key]
	if j == nil || j.Created != o.Created {
		j = newJob(o, now)
		h.Jobs[key] = j
	}
	if j.Submitted.IsZero() {
		j.Submitted = o.Submitted
	}
	return j
}

// Observe brings a job's history up to date with what Nomad reports. dt is the
// time since the last observation. completed is true where a worker has
// completed since.
func (h *History) Observe(key identity.JobKey, o *Observation, now time.Time, dt time.Duration) (j *Job, completed bool) {
	before := h.Job(key, o, now)
	frozen := before.Frozen
	j = before.observe(o, now, dt)
	j.lastSeen = now
	h.Jobs[key] = j
	return j, j.Frozen && !frozen
}

// Learn takes in what a job's training reports: the driver counts the ring in
// slots, of which each worker has so many. It returns the resizes that were not
// known, and whether the times of more sizes, or of fewer, are known than before.
func (h *History) Learn(j *Job, kind string, p *Progress, slots int, now time.Time) (resizes []Resize, sizesChanged bool) {
	before, placed := j.Points(), j.Sensitivity()
	j.Size, j.Loss = p.Size, p.Loss
	j.advance(p)
	formed := j.LastGap
	resizes = j.addGaps(p.Resizes, slots, now)
	j.settle(p.Size, slots, j.LastGap != formed)
	for size, t := range p.StepSeconds {
		if n, err := strconv.Atoi(size); err == nil && n >= 1 && n%slots == 0 {
			j.measure(n/slots, t, now)
		}
	}
	after := j.Points()
	h.learnKind(kind, before, after, now)
	h.learnPlaced(kind, placed, j.Sensitivity(), now)
	return resizes, len(after) != len(before)
}

// Curve is how long a step of a job takes at each size: as measured, and else as
// others of its kind showed.
func (h *History) Curve(j *Job, kind string) speedup.Curve {
	return h.Kinds[kind].extend(j.Points(), j.expired())
}

// Prune forgets kinds and jobs that have not been seen for long. kinds are those
// of the jobs that there are.
func (h *History) Prune(kinds []string, now time.Time) {
	h.pruneKinds(kinds, now)
	for key, j := range h.Jobs {
		if j.lastSeen.IsZero() {
			j.lastSeen = now
		}
		if now.Sub(j.lastSeen) > jobTTL {
			delete(h.Jobs, key)
		}
	}
}
