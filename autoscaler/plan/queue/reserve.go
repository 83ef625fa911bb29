// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import "sort"

// Account counts the slots that each node of a tree uses, so that limits hold on every
// level.
type Account struct {
	l        *Layout
	slots    int
	reserved bool  // guarantees count in full, used or not
	later    bool  // so do reservations that have not begun
	used     []int // by node
}

// Use returns an account that starts with the slots in use. used is indexed by node; only
// the entries of leaves count.
func (l *Layout) Use(slots int, used []int) *Account { return l.account(slots, used, false, false) }

// Reserve returns an account that starts with the firm slots. firm is indexed by node; only
// the entries of leaves count. Guarantees count in full, used or not, so that their owners
// can always get them. If later is true, reservations that have not begun count, too.
func (l *Layout) Reserve(slots int, firm []int, later bool) *Account {
	return l.account(slots, firm, true, later)
}

func (l *Layout) account(slots int, used []int, reserved, later bool) *Account {
	a := &Account{l: l, slots: slots, reserved: reserved, later: later, used: make([]int, len(l.Nodes))}
	for n := len(l.Nodes) - 1; n >= 0; n-- {
		if len(l.Nodes[n].Children) == 0 && n < len(used) {
			a.used[n] = used[n]
		}
		if p := l.Nodes[n].Parent; p >= 0 {
			a.used[p] += a.counted(n, a.used[n])
		}
	}
	return a
}

// counted returns the slots that count at a node's parent if the node uses the given
// number.
func (a *Account) counted(n, used int) int {
	guaranteed := 0
	if a.reserved {
		guaranteed = a.l.Nodes[n].Guarantee
	}
	if a.later {
		guaranteed += a.l.Nodes[n].Later
	}
	return max(used, guaranteed)
}

// Fits reports whether a leaf may use additional slots, given by more. If not, at is the
// node whose limit this would exceed; the pool counts as a node.
func (a *Account) Fits(leaf, more int) (at int, ok bool) {
	ok = true
	a.l.Path(leaf, func(n int) bool {
		most := a.l.Nodes[n].Limit
		if n == 0 {
			most = a.slots
		}
		if (n == 0 || most > 0) && a.used[n]+more > most {
			at, ok = n, false
			return false
		}
		more = a.counted(n, a.used[n]+more) - a.counted(n, a.used[n])
		return more > 0 // otherwise nothing changes above
	})
	return at, ok
}

// Left returns the slots of the pool that are not in use. It is negative if more slots are in
// use than the pool has.
func (a *Account) Left() int { return a.slots - a.used[0] }

// Room returns how many more slots a leaf may use at most.
func (a *Account) Room(leaf int) int {
	return sort.Search(a.slots, func(n int) bool {
		_, ok := a.Fits(leaf, n+1)
		return !ok
	})
}

// Add counts additional slots as used by a leaf.
func (a *Account) Add(leaf, more int) {
	a.l.Path(leaf, func(n int) bool {
		before := a.counted(n, a.used[n])
		a.used[n] += more
		more = a.counted(n, a.used[n]) - before
		return more != 0
	})
}
