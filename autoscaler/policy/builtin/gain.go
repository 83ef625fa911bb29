// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import "math"

// bid is the next step of one job and its value per GPU.
type bid struct {
	gain float64
	to   int
	rank int // breaks ties: the lower goes first
	tier int // bids of a higher tier go first
	c    *candidate
}

func (b *bid) before(o *bid) bool {
	if b.tier != o.tier {
		return b.tier > o.tier
	}
	return b.gain > o.gain || b.gain == o.gain && b.rank < o.rank
}

// bids is a binary heap with the best bid on top. It is not container/heap
// because that allocates for every push.
type bids []bid

func (h bids) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down moves the bid at i to its place below.
func (h bids) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(h) {
			return
		}
		if k+1 < len(h) && h[k+1].before(&h[k]) {
			k++
		}
		if !h[k].before(&h[i]) {
			return
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}

// pop removes the best bid.
func (h *bids) pop() {
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.down(0)
}

// push adds a bid.
func (h *bids) push(b bid) {
	*h = append(*h, b)
	for i := len(*h) - 1; i > 0; {
		above := (i - 1) / 2
		if !(*h)[i].before(&(*h)[above]) {
			return
		}
		(*h)[i], (*h)[above] = (*h)[above], (*h)[i]
		i = above
	}
}

// weighed multiplies a gain by the job's weight, and divides a loss by it.
func (c *candidate) weighed(gain float64) float64 {
	if gain < 0 {
		return gain / c.weight()
	}
	return gain * c.weight()
}

// auction hands out free GPUs step by step, until no job values its next step above
// least. Jobs of higher priority go first, then the step with the highest weighted
// gain per GPU, then the job that is earlier in order. value returns a job's next
// size and its gain; size 0 ends the job's part. If a step no longer fits, auction
// asks again, and value may return a smaller step.
func (p *pool) auction(order []*candidate, least float64, value func(*candidate) (to int, gain float64), why string) {
	h := make(bids, 0, len(order))
	for i, c := range order {
		if to, gain := value(c); to > 0 && gain > least {
			h = append(h, bid{gain: c.weighed(gain), to: to, rank: i, tier: c.Priority, c: c})
		}
	}
	h.init()
	for p.free > 0 && len(h) > 0 {
		b := &h[0]
		if p.set(b.c, b.to) {
			b.c.why = why
		}
		to, gain := value(b.c)
		// The free GPUs only decrease, so a step that does not fit now never will.
		if to == 0 || !(gain > least) || b.c.cost(to)-b.c.cost(b.c.n) > p.free {
			h.pop()
			continue
		}
		b.to, b.gain = to, b.c.weighed(gain)
		h.down(0)
	}
}

// stepGain values a running job's next step by the speed-up it brings. Waiting jobs
// do not start.
func stepGain(c *candidate) (int, float64) {
	if c.n == 0 {
		return 0, 0
	}
	return growOrStart(c)
}

// hullSteps is how many sizes ahead a step across a dip of the curve may reach.
const hullSteps = 256

// hullGain values the step, of any length that fits, with the most speed-up per
// GPU. Such steps follow the upper concave hull of the curve, so a dip does not end
// growth if a larger size is worth it.
func (p *pool) hullGain(c *candidate) (int, float64) { return p.steepest(c, c.rate) }

// steepest returns the size, among those that fit, to which the gain per GPU is highest, and
// this gain. rate returns the gain per GPU from the current size to another one.
func (p *pool) steepest(c *candidate, rate func(to int) float64) (int, float64) {
	best, most := 0, 0.0
	to := c.n
	for range hullSteps {
		if to = c.next(to); to == 0 || c.cost(to)-c.cost(c.n) > p.free {
			break
		}
		if r := rate(to); best == 0 || r-most > straight*math.Abs(most) {
			best, most = to, r
		}
	}
	return best, most
}
