// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

// gang gives each job in turn its wanted size, all or nothing. If strict is true, it
// stops at the first job that does not fit, so that no later job overtakes it.
// Otherwise later jobs fill the gap.
func (p *pool) gang(order []*candidate, strict bool, why string) {
	for _, c := range order {
		if c.n >= c.want {
			continue
		}
		if p.set(c, c.want) {
			c.why = why
			continue
		}
		if strict && c.n == 0 {
			return
		}
	}
}

// minima gives each job in turn its minimum while GPUs last. If a job is too large for
// the remaining GPUs, smaller ones behind it still get theirs.
func (p *pool) minima(order []*candidate, why string) {
	for _, c := range order {
		if c.n == 0 && p.set(c, c.low) {
			c.why = why
		}
	}
}

// grow gives every running job one more step in turn, round after round, until
// nothing fits. A job stops where a step would add less speed-up per GPU than
// floor; a negative floor ignores the curve.
func (p *pool) grow(order []*candidate, floor float64, why string) {
	active := make([]*candidate, 0, len(order))
	for _, c := range order {
		if c.n > 0 {
			active = append(active, c)
		}
	}
	for p.free > 0 && len(active) > 0 {
		rest := active[:0]
		for _, c := range active {
			to := c.next(c.n)
			if to == 0 || c.cost(to)-c.cost(c.n) > p.free {
				continue // free never grows here, so it will not fit later
			}
			if floor >= 0 && !(c.rate(to) >= floor) {
				continue
			}
			p.set(c, to)
			c.why = why
			rest = append(rest, c)
		}
		active = rest
	}
}

// rate returns the speed-up per GPU that is gained by going from the current
// size to the given one.
func (c *candidate) rate(to int) float64 {
	gain := c.speed(to) - c.speed(c.n)
	if gpus := c.cost(to) - c.cost(c.n); gpus != 1 {
		return gain / float64(gpus)
	}
	return gain
}
