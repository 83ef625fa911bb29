// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

// Account keeps what is used in a tree, and by whom, so that limits hold on every level
// of it.
type Account struct {
	l        *Layout
	slots    int
	reserved bool  // guarantees count in full, used or not
	later    bool  // so do reservations that have not begun
	used     []int // by node
}

// Use returns an account of slots that are used: by node, those of leaves count.
func (l *Layout) Use(slots int, used []int) *Account { return l.account(slots, used, false, false) }

// Reserve returns an account of firm slots: by node, those of leaves count. A guarantee
// counts in full, for the slots of it that are free must stay within reach. With later, so
// do reservations that have not begun.
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

// counted returns what a node with this use counts for above.
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

// Fits reports whether a leaf may use so many slots more. If not, at is the node whose
// limit it would exceed.
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

// Add notes that a leaf uses so many slots more.
func (a *Account) Add(leaf, more int) {
	a.l.Path(leaf, func(n int) bool {
		before := a.counted(n, a.used[n])
		a.used[n] += more
		more = a.counted(n, a.used[n]) - before
		return more != 0
	})
}
