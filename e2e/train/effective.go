// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Effective returns the steps whose results training has kept. For each ring, these are the
// steps before the step at which the next ring began. The result is empty if the script
// does not record generations.
func (r Record) Effective() Record {
	steps := r.Where("step", func(e Event) bool { return e.Generation > 0 })
	slices.SortStableFunc(steps, func(a, b Event) int { return cmp.Compare(a.Generation, b.Generation) })
	var kept Record
	for len(steps) > 0 {
		n := slices.IndexFunc(steps, func(e Event) bool { return e.Generation != steps[0].Generation })
		if n < 0 {
			n = len(steps)
		}
		ring := steps[:n]
		first := slices.MinFunc(ring, func(a, b Event) int { return cmp.Compare(a.Step, b.Step) }).Step
		kept = append(slices.DeleteFunc(kept, func(e Event) bool { return e.Step >= first }), ring...)
		steps = steps[n:]
	}
	return kept
}

// CheckEffective returns an error unless each sample was used exactly once in every
// complete epoch. The argument samples is the number of all samples. It tolerates what the
// record cannot show: a killed rank may not have recorded its last step, and the remaining
// samples of an epoch may not divide evenly among the ranks of its last ring.
func (r Record) CheckEffective(samples int) error {
	epochs := map[int]Record{}
	for _, e := range r.Effective() {
		epochs[e.Epoch] = append(epochs[e.Epoch], e)
	}
	if len(epochs) > 0 {
		delete(epochs, slices.Max(slices.Collect(maps.Keys(epochs))))
	}
	for epoch, steps := range epochs {
		if err := steps.checkEpoch(samples); err != nil {
			return fmt.Errorf("epoch %d: %w", epoch, err)
		}
	}
	return nil
}

// checkEpoch checks the effective steps of one epoch.
func (r Record) checkEpoch(samples int) error {
	used, ranks := map[int]int{}, map[int]int{}
	again, unseen := 0, 0
	for _, e := range r {
		for _, i := range e.Indices {
			if used[i]++; used[i] > 1 {
				again++
			}
		}
		if ranks[e.Step]++; ranks[e.Step] == 1 {
			unseen += e.Size
		}
		unseen--
	}
	last := slices.MaxFunc(r, func(a, b Event) int { return cmp.Compare(a.Step, b.Step) })
	switch missing := samples - len(used); {
	case again >= last.Size:
		return fmt.Errorf("%d samples were used again, the last ring has %d ranks", again, last.Size)
	case missing > 0 && unseen == 0:
		return fmt.Errorf("%d samples were not used", missing)
	}
	return nil
}

// CheckUses returns an error unless each sample was used exactly once in every complete
// epoch, as counted in the weights of the model (--audit). There is one exception: some
// samples may be used again to fill the last batch, so that all ranks have the same number.
func (r Record) CheckUses() error {
	size := map[int]int{} // largest ring of each epoch
	for _, e := range r.Where("step", nil) {
		size[e.Epoch] = max(size[e.Epoch], e.Size)
	}
	audited := map[int]bool{}
	for _, e := range r.Where("epoch", nil) {
		audited[e.Epoch] = true
		if e.Unused > 0 || e.Again >= size[e.Epoch] {
			return fmt.Errorf("epoch %d: by the weights %d samples were not used, and there were %d uses too many by rings of up to %d ranks",
				e.Epoch, e.Unused, e.Again, size[e.Epoch])
		}
	}
	complete := 0
	for _, e := range r.Where("done", nil) {
		complete = max(complete, e.Epoch)
	}
	if complete == 0 {
		return errors.New("training was not done")
	}
	for epoch := range complete {
		if !audited[epoch] {
			return fmt.Errorf("epoch %d was not audited", epoch)
		}
	}
	return nil
}
