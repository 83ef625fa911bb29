// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// History holds the facts that are remembered about all jobs. It is not safe for
// concurrent use.
type History struct {
	Jobs   map[identity.JobKey]*Job
	Kinds  map[string]*Kind  // how kinds of jobs scale, by KindKey
	States map[string][]byte // what policies asked to keep, by node pool
	// Queues holds the accounts of queues, by node pool.
	Queues map[string]ledger.Ledger
}

// New returns an empty history.
func New() *History {
	return &History{Jobs: map[identity.JobKey]*Job{}, Kinds: map[string]*Kind{}, States: map[string][]byte{}, Queues: map[string]ledger.Ledger{}}
}

// Ledger returns the accounts of a node pool's queues.
func (h *History) Ledger(pool string) ledger.Ledger {
	if h.Queues[pool] == nil {
		h.Queues[pool] = ledger.Ledger{}
	}
	return h.Queues[pool]
}

// jobTTL is how long a job that no longer exists is remembered.
const jobTTL = time.Hour

// KindKey returns the key of a kind of jobs in the namespace of job k.
func KindKey(k identity.JobKey, kind string) string { return k.Namespace + "/" + kind }

// Namespace returns the namespace of a KindKey: the part before the first slash, since
// the name of a namespace contains no slash.
func Namespace(kind string) string {
	namespace, _, _ := strings.Cut(kind, "/")
	return namespace
}

// Job returns a job's history. If there is none, it begins one with the given
// observation.
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

// Observe brings a job's history up to date with what Nomad reports. dt is the time since
// the last observation. completed is true if a worker has completed since.
func (h *History) Observe(key identity.JobKey, o *Observation, now time.Time, dt time.Duration) (j *Job, completed bool) {
	before := h.Job(key, o, now)
	frozen := before.Frozen
	j = before.observe(o, now, dt)
	j.lastSeen = now
	h.Jobs[key] = j
	return j, j.Frozen && !frozen
}

// Learn processes a progress report of a job's training. slots is the number of slots
// of one worker, because the driver reports ring sizes in slots. Learn returns the new
// resizes, and whether the number of sizes with a known time has changed.
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

// Curve returns the step time of a job at each size: as measured, or else as learned from
// others of its kind.
func (h *History) Curve(j *Job, kind string) speedup.Curve {
	return h.Kinds[kind].extend(j.Points(), j.expired())
}

// Prune forgets kinds and jobs that have not been seen for long. kinds lists the kinds of
// the existing jobs.
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
