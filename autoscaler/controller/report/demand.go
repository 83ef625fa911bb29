// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// Movable reports whether a policy may decide about the job now. Any other job keeps the workers
// that it has.
func Movable(j *planner.Job, now time.Time) bool {
	return j.Frozen == "" && j.HoldReason == "" && !j.ManualUntil.After(now) && j.NeverFits == ""
}

// Demand is what the queues of a pool can use. It is indexed by node of a layout, which may
// still grow.
type Demand []queue.Demand

// Add adds slots to what a leaf can use.
func (d *Demand) Add(leaf, firm, wanted int) {
	if more := leaf + 1 - len(*d); more > 0 {
		*d = append(*d, make(Demand, more)...)
	}
	(*d)[leaf].Firm += firm
	(*d)[leaf].Wanted += wanted
}

// DemandOf returns what the elastic jobs of a pool can use now, and what its other jobs hold.
// It adds their leaves to the layout.
func DemandOf(v *cluster.View, pool string, layout *queue.Layout, now time.Time) (d Demand) {
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		if j.Pool != pool {
			continue
		}
		leaf, least := layout.Leaf(f.Queue, j.Key.Namespace), j.Sizes.Above(max(1, j.Min)-1)
		most := f.SlotsOf(max(least, j.Sizes.AtMost(j.Max)))
		switch held := j.AskedSlots(); {
		case !Movable(j, now):
			d.Add(leaf, held, held)
		case j.Count() > 0 && !j.Preemptible:
			d.Add(leaf, f.SlotsOf(least), most)
		default:
			d.Add(leaf, 0, most)
		}
	}
	for _, r := range v.Rigid {
		if r.Pool == pool {
			d.Add(layout.Leaf(r.Queue, r.Key.Namespace), r.Slots, r.Slots)
		}
	}
	return d
}
