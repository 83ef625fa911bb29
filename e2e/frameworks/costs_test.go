// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A cost is what a change costs.
type cost struct {
	gap   time.Duration // the longest time between two steps
	again int           // steps that were made again
	// Samples of the steps that count which were used more than once, or left out.
	twice, never int
}

// unknown is the number of samples that were left out, if samples are not used in the order of
// their numbers: Lightning shuffles the samples of a distributed training.
const unknown = -1

func (c cost) String() string {
	return fmt.Sprintf("gap %s, %d steps again, %d samples twice, %d never", c.gap.Round(10*time.Millisecond), c.again, c.twice, c.never)
}

// costOf returns what a change costs that was requested at this time.
func costOf(record train.Record, since time.Time) cost {
	var c cost
	steps := record.Leading()
	for i := 1; i < len(steps); i++ {
		if steps[i].Time().After(since) {
			c.gap = max(c.gap, steps[i].Time().Sub(steps[i-1].Time()))
			c.again += max(0, steps[i-1].Step-steps[i].Step+1)
		}
	}
	c.twice, c.never = uses(record)
	before := record[:slices.IndexFunc(record, func(e train.Event) bool { return e.Time().After(since) })]
	twice, never := uses(before)
	// Steps that are lost may be the ones that had used samples twice.
	c.twice, c.never = max(0, c.twice-twice), max(0, c.never-never)
	if len(steps) > 0 && !slices.Contains(steps[0].Indices, 0) {
		c.never = unknown
	}
	return c
}

// uses counts the samples that the steps which count have used more than once, and those that
// they have left out, if they use samples in the order of their numbers.
func uses(record train.Record) (twice, never int) {
	counts, unseen := map[int]int{}, 0
	for _, e := range counting(record) {
		steps := record.Where("step", func(o train.Event) bool { return o.Step == e.Step && o.Size == e.Size })
		for rank := range e.Size {
			mine := steps.Where("step", func(o train.Event) bool { return o.Rank == rank })
			if len(mine) == 0 { // it was killed before it had recorded the step
				unseen += len(e.Indices)
				continue
			}
			// The step may have been made before and lost.
			nearest := slices.MinFunc(mine, func(a, b train.Event) int {
				return cmp.Compare(a.Time().Sub(e.Time()).Abs(), b.Time().Sub(e.Time()).Abs())
			})
			for _, i := range nearest.Indices {
				counts[i]++
			}
		}
	}
	last := -1
	for i, n := range counts {
		last = max(last, i)
		twice += n - 1
	}
	return twice, max(0, last+1-len(counts)-unseen)
}

// counting returns the steps of rank 0 whose results training has kept.
func counting(record train.Record) train.Record {
	var kept train.Record
	for _, e := range record.Leading() {
		kept = append(slices.DeleteFunc(kept, func(o train.Event) bool { return o.Step >= e.Step }), e)
	}
	return kept
}

// costs are those of each change, by way.
type costs map[string]map[string][]cost

func (c costs) add(change, way string, one cost) {
	if c[change] == nil {
		c[change] = map[string][]cost{}
	}
	c[change][way] = append(c[change][way], one)
}

// table returns rows for docs/benchmarks.md.
func (c costs) table(framework string) string {
	var rows strings.Builder
	for _, change := range changes {
		by := c[change.name]
		fmt.Fprintf(&rows, "| %s | %s |", framework, change.name)
		for _, w := range ways {
			fmt.Fprintf(&rows, " %s |", summary(by[w.name]))
		}
		for _, way := range []string{"torchrun", "restart"} {
			fmt.Fprintf(&rows, " %.1f |", median(by[way])/median(by["in process"]))
		}
		rows.WriteByte('\n')
	}
	return rows.String()
}

// summary describes costs of the same kind: the median of the gaps, the fastest and slowest, and the range of the rest.
func summary(all []cost) string {
	if len(all) == 0 {
		return "–"
	}
	seconds := gaps(all)
	span := func(name string, value func(cost) int) string {
		least, most := value(all[0]), value(all[0])
		for _, c := range all {
			least, most = min(least, value(c)), max(most, value(c))
		}
		if least == unknown {
			return "unknown " + name
		}
		if least == most {
			return fmt.Sprintf("%d %s", least, name)
		}
		return fmt.Sprintf("%d to %d %s", least, most, name)
	}
	return strings.Join([]string{
		fmt.Sprintf("%.2f [%.2f, %.2f]", median(all), seconds[0], seconds[len(seconds)-1]), span("again", func(c cost) int { return c.again }),
		span("twice", func(c cost) int { return c.twice }), span("never", func(c cost) int { return c.never }),
	}, ", ")
}

// gaps returns the gaps in seconds, the shortest first.
func gaps(all []cost) []float64 {
	var seconds []float64
	for _, c := range all {
		seconds = append(seconds, c.gap.Seconds())
	}
	slices.Sort(seconds)
	return seconds
}

// median returns the median of the gaps in seconds.
func median(all []cost) float64 {
	if len(all) == 0 {
		return 0
	}
	return gaps(all)[len(all)/2]
}

// The cost of a change is what its records show.
func TestCost(t *testing.T) {
	step := func(seconds float64, step, rank, size int, indices ...int) train.Event {
		return train.Event{Kind: "step", T: seconds, Step: step, Rank: rank, Size: size, Indices: indices}
	}
	since := time.UnixMicro(2_500_000)
	for name, c := range map[string]struct {
		after train.Record
		want  cost
	}{
		"nothing is lost": {train.Record{step(4, 3, 0, 2, 2), step(4, 3, 1, 2, 3), step(5, 4, 0, 2, 4), step(5, 4, 1, 2, 5)}, cost{gap: 2 * time.Second}},
		"a step is made again, after a checkpoint that knows its samples": {
			train.Record{step(7, 2, 0, 2, 1), step(7, 2, 1, 2, 2), step(8, 3, 0, 2, 3), step(8, 3, 1, 2, 4)}, cost{gap: 5 * time.Second, again: 1}},
		"the data begin again": {train.Record{step(3, 3, 0, 1, 0), step(4, 4, 0, 1, 1), step(5, 5, 0, 1, 2)}, cost{gap: time.Second, twice: 2}},
		"a step that had used samples twice is lost": {
			train.Record{step(2.1, 3, 0, 1, 0), step(3, 3, 0, 1, 2)}, cost{gap: 900 * time.Millisecond, again: 1}},
		"samples are left out":                         {train.Record{step(3, 3, 0, 1, 4)}, cost{gap: time.Second, never: 2}},
		"a killed rank has not recorded its last step": {train.Record{step(3, 3, 0, 2, 2), step(4, 4, 0, 1, 4)}, cost{gap: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			must.EqOp(t, c.want, costOf(append(train.Record{step(1, 1, 0, 1, 0), step(2, 2, 0, 1, 1)}, c.after...), since))
		})
	}
	shuffled := train.Record{step(1, 1, 0, 1, 7), step(3, 2, 0, 1, 3)}
	must.EqOp(t, cost{gap: 2 * time.Second, never: unknown}, costOf(shuffled, since))
}
