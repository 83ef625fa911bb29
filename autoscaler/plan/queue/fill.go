// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"cmp"
	"container/heap"
	"slices"
)

// part is one of those between which slots are divided. It gets base + weight × level
// thousandths of slots, rounded down to whole slots, where the level is the same for all
// parts, but at least low and at most high.
type part struct {
	base      int // thousandths of slots
	weight    int
	low, high int // slots
}

// event is a level at which a part begins or ceases to get more: num/den.
type event struct {
	part     int
	num, den int
	end      bool
}

// fill divides slots between parts: it raises the level until they are used up. Rounding
// leaves some whole slots. They go one by one to the part with the lowest ratio of slots
// to weight after receiving it; if ratios are equal, to the first such part (d'Hondt's
// method). Of the usual methods, only this one keeps both promises of the package: no slot
// changes sides if the taker would then have more for its weight than the giver had, and
// the result is the same if some of it was given out before. The sum of low must be at
// most slots, and a part without weight must have high = low.
func fill(slots int, parts []part) []int {
	out := make([]int, len(parts))
	events := make([]event, 0, 2*len(parts))
	fixed := 0 // slots of parts that get none or no more
	for i := range parts {
		p := &parts[i]
		p.high = max(p.low, min(p.high, slots))
		out[i] = p.low
		fixed += p.low
		if p.high > p.low {
			events = append(events, event{i, p.low*WeightUnit - p.base, p.weight, false}, event{i, p.high*WeightUnit - p.base, p.weight, true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.num*b.den, b.num*a.den) })
	base, weight := 0, 0 // of the parts that get more
	for _, e := range events {
		if weight > 0 && (fixed*WeightUnit+base)*e.den+weight*e.num >= slots*WeightUnit*e.den {
			break
		}
		if p := &parts[e.part]; e.end {
			fixed, base, weight = fixed+p.high, base-p.base, weight-p.weight
		} else {
			fixed, base, weight = fixed-p.low, base+p.base, weight+p.weight
		}
	}
	left := slots
	for i, p := range parts {
		if weight > 0 && p.high > p.low {
			out[i] = max(p.low, min(p.high, (p.base+p.weight*((slots-fixed)*WeightUnit-base)/weight)/WeightUnit))
		} else if p.high > p.low {
			out[i] = p.high
		}
		left -= out[i]
	}
	deal(left, parts, out)
	return out
}

// deal gives out slots one by one.
func deal(left int, parts []part, out []int) {
	if left <= 0 {
		return
	}
	b := &bids{parts: parts, has: out, order: make([]int, 0, len(parts))}
	for i := range parts {
		if out[i] < parts[i].high {
			b.order = append(b.order, i)
		}
	}
	heap.Init(b)
	for ; left > 0 && len(b.order) > 0; left-- {
		i := b.order[0]
		if out[i]++; out[i] == parts[i].high {
			heap.Pop(b)
		} else {
			heap.Fix(b, 0)
		}
	}
}

// bids orders parts by what they would have for their weight with one slot more.
type bids struct {
	parts []part
	has   []int
	order []int
}

func (b *bids) Len() int      { return len(b.order) }
func (b *bids) Swap(i, k int) { b.order[i], b.order[k] = b.order[k], b.order[i] }
func (b *bids) Push(any)      {} // parts only leave

func (b *bids) Less(i, k int) bool {
	x, y := b.order[i], b.order[k]
	left, right := ((b.has[x]+1)*WeightUnit-b.parts[x].base)*b.parts[y].weight, ((b.has[y]+1)*WeightUnit-b.parts[y].base)*b.parts[x].weight
	return left < right || left == right && x < y
}

func (b *bids) Pop() any {
	last := len(b.order) - 1
	b.order = b.order[:last]
	return nil
}
