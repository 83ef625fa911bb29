// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A job with a Ratio is a gang: its groups have whole units of workers, such as one server
// for every four workers. A group without slots takes part in all of it: its places have no
// bin, so only CPU and memory bound it. Nomad changes the count of one group at a time, so a
// leader that dies between two writes leaves a gang that is not whole. The next plan repairs
// it, before anything else is done to the job: it completes the change if there is room, or
// else goes back to whole units.

// unit returns the number of workers that start and stop together.
func (job *Job) unit() int {
	n := 0
	for _, k := range job.Ratio {
		n += k
	}
	return max(1, n)
}

// Shape returns the counts of a gang's groups at a total of n.
func (job *Job) Shape(n int) []int {
	out := make([]int, len(job.Ratio))
	for g, k := range job.Ratio {
		out[g] = n / job.unit() * k
	}
	return out
}

// AskedSlots returns how many slots the workers hold that the job asks Nomad for.
func (job *Job) AskedSlots() (n int) {
	for g := range job.Groups {
		n += job.Groups[g].Count * job.Groups[g].Need.Slots
	}
	return n
}

// LiveSlots returns how many slots the allocations hold that have not ended, without spares.
func (job *Job) LiveSlots() (n int) {
	for g := range job.Groups {
		n += len(job.Groups[g].Live) * job.Groups[g].Need.Slots
	}
	return n
}

// slots returns how many slots n workers of the job hold; of a gang, n is a number of whole
// units.
func (job *Job) slots(n int) int {
	if job.Ratio == nil {
		return n * job.Groups[0].Need.Slots
	}
	sum := 0
	for g, k := range job.Shape(n) {
		sum += k * job.Groups[g].Need.Slots
	}
	return sum
}

// wholeUnits returns the total of the units that the counts of a gang's groups complete.
func (job *Job) wholeUnits(counts []int) int {
	units := -1
	for g, k := range job.Ratio {
		if n := max(0, counts[g]) / max(1, k); units < 0 || n < units {
			units = n
		}
	}
	return max(0, units) * job.unit()
}

// ragged reports whether the groups of a gang are not in their ratio.
func (job *Job) ragged() bool {
	if job.Ratio == nil {
		return false
	}
	counts := job.counts()
	return !slices.Equal(counts, job.Shape(job.wholeUnits(counts)))
}

// HasMinimum reports whether the job has at least its minimum of workers. For a gang, this
// has to be true of each group.
func (job *Job) HasMinimum() bool {
	total, counts := 0, make([]int, len(job.Groups))
	for g := range job.Groups {
		for _, w := range job.Groups[g].Live {
			if !w.Ending {
				counts[g]++
				total++
			}
		}
	}
	if job.Ratio != nil {
		total = job.wholeUnits(counts)
	}
	return total > 0 && total >= job.Min
}

// splitUnits does what split does, for a gang: it adds the most whole units that find room,
// at most n workers.
func (c *capacity) splitUnits(j, n int) (counts []int, given int) {
	job := &c.cluster.Jobs[j]
	from, unit := job.Count(), job.unit()
	low, high := 0, n/unit // units that fit, and that may fit
	for low < high {
		mid := low + (high-low+1)/2
		if c.fits(j, job.Shape(from+mid*unit)) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return job.Shape(from + low*unit), low * unit
}

// fits reports whether all workers that counts adds to the groups of a job find room
// together.
func (c *capacity) fits(j int, counts []int) bool {
	job := &c.cluster.Jobs[j]
	for g := range job.Groups {
		c.openPlaces(j, g) // a trial of one group must not hide the places of another
	}
	for g := range job.Groups {
		group := &job.Groups[g]
		more := counts[g] - group.Count
		if more <= 0 {
			continue
		}
		if counts[g] > group.Max || group.GrowAfter.After(c.now) {
			return false
		}
		placed, rollback := c.try(j, g, min(more, c.free(j, g, more)))
		defer rollback()
		if placed < more {
			return false
		}
	}
	return true
}

// repair brings a gang that is not whole to whole units.
func (b *planBuilder) repair(j int, w Want) {
	job := &b.Jobs[j]
	why := "its groups are not in their ratio of " + job.ratio()
	switch {
	case job.UnhealthyReason != "":
		b.wait(j, job.allowed(w.Count), time.Time{}, why+", and "+job.UnhealthyReason)
		return
	case job.Alive() > job.Count():
		b.wait(j, job.allowed(w.Count), time.Time{}, why+", and workers of its last shrink are still ending")
		return
	}
	sizes := []int{job.Sizes.Fit(w.Count, job.Min, job.Max), job.Sizes.Fit(job.wholeUnits(job.counts()), job.Min, job.Max)}
	if !job.mayStop() {
		sizes = append(sizes, job.smallest())
	}
	for _, n := range sizes {
		if goal := job.Shape(n); n > 0 && n <= job.Max && b.capacity.fits(j, goal) {
			b.restore(j, goal, why)
			return
		}
	}
	if job.mayStop() {
		b.restore(j, job.Shape(0), why)
		return
	}
	b.wait(j, job.smallest(), b.now.Add(b.o.PlacementRetry), why+", and there is no room to complete it")
}

// restore writes the counts of a gang that is repaired.
func (b *planBuilder) restore(j int, counts []int, why string) {
	for g, n := range counts {
		b.capacity.take(j, g, n-b.Jobs[j].Groups[g].Count)
	}
	b.act(j, b.action(j, counts, Repair, why))
}

// ratio returns the ratio of a gang, such as "1:4".
func (job *Job) ratio() string {
	parts := make([]string, len(job.Ratio))
	for g, k := range job.Ratio {
		parts[g] = strconv.Itoa(k)
	}
	return strings.Join(parts, ":")
}

// inOrder orders the steps of a gang: groups that shrink come first, the last of the gang
// before the others; groups that grow follow in the order of the gang. So the time in
// which a worker exists without the groups before it is as short as possible.
func (job *Job) inOrder(steps []Step) {
	at := map[string]int{}
	for g := range job.Groups {
		at[job.Groups[g].Name] = g
	}
	rank := func(s Step) int {
		if s.To < s.From {
			return -1 - at[s.Group]
		}
		return at[s.Group]
	}
	slices.SortFunc(steps, func(x, y Step) int { return rank(x) - rank(y) })
}
