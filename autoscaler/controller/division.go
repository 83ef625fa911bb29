// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// division is the division of a pool in which jobs that are not elastic count like all
// others. Elastic jobs make room for such a job only within the share of its queue.
// Otherwise, a queue would lose slots because its jobs use Kolo.
type division struct {
	layout *queue.Layout
	leaf   []int // by index of View.Jobs; -1 for jobs of other pools
	share  []int // slots, by node of the layout
	rigid  []int // slots of jobs that are not elastic, or kept free for them, by node
}

// divide returns the divisions of all divided pools, by name.
func divide(v *cluster.View, pools func(string) config.Pool, h *history.History, now time.Time) map[string]*division {
	out := map[string]*division{}
	for _, b := range v.Blocked {
		if tree := pools(b.Pool).Tree; tree != nil && out[b.Pool] == nil {
			out[b.Pool] = newDivision(v, b.Pool, tree, h.Queues[b.Pool].Past(), now)
		}
	}
	return out
}

func newDivision(v *cluster.View, pool string, tree *queue.Tree, past map[string]queue.Past, now time.Time) *division {
	d := &division{layout: tree.Layout(), leaf: make([]int, len(v.Jobs))}
	for i := range v.Jobs {
		d.leaf[i] = -1
		if j := &v.Jobs[i]; j.Pool == pool {
			d.leaf[i] = d.layout.Leaf(v.Facts[i].Queue, j.Key.Namespace)
		}
	}
	demand := report.DemandOf(v, pool, d.layout, now)
	slots, rigid := ready(v, pool), map[int]int{}
	for _, r := range v.Rigid {
		if r.Pool == pool {
			rigid[d.layout.Leaf(r.Queue, r.Key.Namespace)] += r.Slots
			slots += r.Slots
		}
	}
	for _, b := range v.Blocked {
		if b.Pool == pool {
			demand.Add(d.leafOf(&b), 0, b.Slots)
		}
	}
	d.layout.At(seconds(now))
	d.layout.Remember(past)
	d.layout.Fit(slots)
	d.rigid = make([]int, len(d.layout.Nodes))
	for leaf, n := range rigid {
		d.rigid[leaf] = n
	}
	d.share = d.layout.Divide(slots, demand)
	return d
}

// leafOf returns the node of the layout that a waiting job counts for.
func (d *division) leafOf(b *cluster.Blocked) int { return d.layout.Leaf(b.Queue, b.Key.Namespace) }

// entitled returns how many more slots a job that is not elastic may get. kept is the
// number of slots that the elastic jobs of its own queue keep.
func (d *division) entitled(b *cluster.Blocked, kept int) int {
	leaf := d.leafOf(b)
	return max(0, d.share[leaf]-d.rigid[leaf]-kept)
}

// explain states why a job gets no more slots than its queue is entitled to.
func (d *division) explain(b *cluster.Blocked, n int) string {
	leaf, of := d.leafOf(b), fmt.Sprintf("namespace %q", b.Key.Namespace)
	if name := d.layout.Queue(leaf); name != "" {
		of = fmt.Sprintf("queue %q", name)
	}
	return fmt.Sprintf("it needs %d slots, and elastic jobs make room for %d: %s is entitled to %d slots now, including those that its jobs need", b.Slots, n, of, d.share[leaf])
}

// rigidSlots returns the slots of a divided pool that non-elastic jobs hold, or that are
// kept free for such jobs. They count for the queues of these jobs.
func rigidSlots(v *cluster.View, pool string) (out []policy.Fixed) {
	room := map[string]int{} // by job
	for _, b := range v.Blocked {
		if b.Pool == pool {
			room[b.Key.String()] = b.Room
		}
	}
	for _, r := range v.Rigid {
		if r.Pool == pool {
			out = append(out, policy.Fixed{Queue: r.Queue, Namespace: r.Key.Namespace, Slots: r.Slots + room[r.Key.String()]})
			delete(room, r.Key.String())
		}
	}
	for _, b := range v.Blocked {
		if n := room[b.Key.String()]; b.Pool == pool && n > 0 {
			out = append(out, policy.Fixed{Queue: b.Queue, Namespace: b.Key.Namespace, Slots: n})
		}
	}
	return out
}

// keeps returns how many workers an elastic job keeps when it makes room for another job
// of the given priority. foreign states that the other job is in another queue;
// priorities do not count then.
func keeps(j *planner.Job, priority int, foreign bool, now time.Time) int {
	keep := j.Count()
	if (foreign || j.Priority <= priority) && movable(j, now) {
		keep = min(keep, j.Min)
		if j.Preemptible && (foreign || j.Priority < priority) {
			keep = 0
		}
	}
	if !movable(j, now) {
		keep += j.HeldSpares()
	}
	return keep
}
