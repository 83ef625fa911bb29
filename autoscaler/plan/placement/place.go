// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"math"
	"slices"
)

// Share is the part of a job's workers at one place.
type Share struct {
	Place
	Workers int
}

// Pack takes room for up to n more workers of a job, and keeps the job together. shares
// lists the workers that the job has already. Pack fills the job's own places first. It
// puts the remaining workers in the place where they fit with the least room to spare or,
// if they do not fit in any one place, first in the place that holds most of them. It
// returns the shares with the new workers, and how many found room.
func (c *Capacity) Pack(shares []Share, places []Place, ask Ask, n int) ([]Share, int) {
	placed := 0
	for i := range shares {
		if k := min(n-placed, c.fits(shares[i].Place, ask)); k > 0 {
			c.Take(shares[i].Place, ask, k)
			shares[i].Workers += k
			placed += k
		}
	}
	for placed < n {
		at, k := c.tightest(places, ask, n-placed)
		if k == 0 {
			break
		}
		k = min(k, n-placed)
		c.Take(at, ask, k)
		shares = append(shares, Share{at, k})
		placed += k
	}
	return shares, placed
}

// Spread takes room for up to n more workers of a job, each in the place with the most room.
// shares lists the workers that the job has already. Like Pack, Spread returns the shares
// with the new workers, and how many workers found room.
func (c *Capacity) Spread(shares []Share, places []Place, ask Ask, n int) ([]Share, int) {
	for placed := range n {
		at, k := c.tightest(places, ask, math.MaxInt)
		if k == 0 {
			return shares, placed
		}
		c.Take(at, ask, 1)
		i := slices.IndexFunc(shares, func(s Share) bool { return s.Place == at })
		if i < 0 {
			shares = append(shares, Share{Place: at})
			i = len(shares) - 1
		}
		shares[i].Workers++
	}
	return shares, n
}

// GiveBack releases the room that the workers of shares hold.
func (c *Capacity) GiveBack(shares []Share, ask Ask) {
	for _, s := range shares {
		c.Take(s.Place, ask, -s.Workers)
	}
}

// tightest returns the place that keeps n workers together best, and how many it has room
// for. Of places that hold all n, it is the one that holds fewest, and of equal ones the
// one with fewest free slots. If none holds all n, it is the one that holds most, and of
// equal ones the one with most free slots. Otherwise the earlier one wins.
func (c *Capacity) tightest(places []Place, ask Ask, n int) (Place, int) {
	var best Place
	found, free := 0, 0
	for _, at := range places {
		k := c.fits(at, ask)
		if k == 0 {
			continue
		}
		slots := c.Free(at)
		var better bool
		if k >= n {
			better = found < n || k < found || k == found && slots < free
		} else {
			better = found < n && (k > found || k == found && slots > free)
		}
		if !better {
			continue
		}
		best, found, free = at, k, slots
		if k == n && slots == n*ask.Slots {
			break // none fits better
		}
	}
	return best, found
}
