// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// addWaits adds to each job without workers the reason why it waits, its position in its
// queue, and its expected start.
func addWaits(s *api.Status, r *Round) {
	waits := WaitsByJob(r.Plan.Waits)
	lines := newLines(r)
	for i := range s.Jobs {
		js, j, f := &s.Jobs[i], &r.View.Jobs[i], &r.View.Facts[i]
		if js.Count > 0 || js.Running > 0 || js.State == api.StateComplete || j.Frozen != "" || j.Stopped {
			continue
		}
		wait := waits[j.Key]
		w := &api.Waits{Queue: queueOf(r.Config.Pool(j.Pool), js), Slots: f.SlotsOf(j.Sizes.Above(max(1, j.Min) - 1)), Since: js.Seen}
		if js.State == api.StateSuspended {
			w.Since = r.Jobs[i].LastChange
		}
		w.Reason, w.Sentence = why(r, i, &wait)
		js.Waits = w
		expect(js, r.Expected)
		if w.Reason != waiting.Paused && w.Reason != waiting.Held && w.Reason != waiting.NeverFits {
			lines.join(i, js)
		}
	}
	lines.number(s)
}

// why returns the reason of a job that waits, and the sentence that explains it. wait is the
// planner's wait of the job, if it has one.
func why(r *Round, i int, wait *planner.Wait) (waiting.Reason, string) {
	j, want := &r.View.Jobs[i], &r.Wants[i]
	switch {
	case r.Jobs[i].Paused:
		return waiting.Paused, j.HoldReason
	case j.HoldReason != "":
		return waiting.Held, j.HoldReason
	case j.ManualUntil.After(r.Now):
		return waiting.Held, "a user set the count by hand"
	case want.Count > 0 && wait.Why != "":
		return cmp.Or(wait.Reason, waiting.Unknown), wait.Why
	case want.Count > 0:
		return waiting.Settling, want.Reason
	case want.Wait != "":
		return want.Wait, strings.TrimPrefix(want.Reason, string(want.Wait)+": ")
	}
	return waiting.Unknown, want.Reason
}

func queueOf(pool config.Pool, j *api.JobStatus) string { return Queue(pool, j.Namespace, j.Queue) }

// Queue returns the configured queue that a job is in, by its namespace and the queue that
// it names. It returns queue.Any if the job is in none.
func Queue(pool config.Pool, namespace, named string) string {
	name := named
	if pool.Tree != nil {
		name = pool.QueueOf(namespace, named)
	}
	if _, ok := pool.Block(name); ok {
		return name
	}
	return queue.Any
}

// line is a set of jobs for which one policy decides: those of a pool, or of a leaf
// of a divided pool.
type line struct {
	pool string
	leaf int
}

// lines has the jobs that wait in each line.
type lines struct {
	r       *Round
	layouts map[string]*queue.Layout // of pools that are divided
	waiting map[line][]waiter
}

type waiter struct {
	index    int // of the job
	priority int
}

func newLines(r *Round) *lines {
	l := &lines{r: r, layouts: map[string]*queue.Layout{}, waiting: map[line][]waiter{}}
	for _, name := range r.View.Pools() {
		if tree := r.Config.Pool(name).Tree; tree != nil {
			l.layouts[name] = tree.Layout()
		}
	}
	return l
}

// join adds a job to its line.
func (l *lines) join(i int, js *api.JobStatus) {
	at, w := line{pool: js.Pool}, waiter{i, js.Requests.Priority}
	if layout := l.layouts[js.Pool]; layout != nil {
		at.leaf = layout.Leaf(l.r.View.Facts[i].Queue, js.Namespace)
		layout.Path(at.leaf, func(n int) bool {
			if most := layout.Nodes[n].MaxTime; most > 0 && l.r.Jobs[i].RunTime-l.r.Jobs[i].Pardoned >= float64(most) {
				w.priority = math.MinInt // it goes behind the others
			}
			return true
		})
	}
	l.waiting[at] = append(l.waiting[at], w)
}

// number sets the positions: by priority, and then in order of arrival.
func (l *lines) number(s *api.Status) {
	for _, of := range l.waiting {
		slices.SortStableFunc(of, func(a, b waiter) int {
			x, y := &s.Jobs[a.index], &s.Jobs[b.index]
			return cmp.Or(cmp.Compare(b.priority, a.priority), x.Seen.Compare(y.Seen), cmp.Compare(x.Key(), y.Key()))
		})
		for k, w := range of {
			s.Jobs[w.index].Waits.Position = k + 1
		}
	}
}
