// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"fmt"
	"slices"
)

// Reservation raises the guarantee of a queue, and of the queues that contain it, for some
// time. Times are seconds on the caller's clock. Before it begins, its slots are lent, but
// only to jobs that can give them back, because no one knows how long other jobs run.
type Reservation struct {
	Name, Queue string
	Slots       int
	From, Until float64
}

// ReservationProblem is a configuration error in a reservation.
type ReservationProblem struct {
	Reservation, Setting, Text, Remedy string
}

// With returns the tree with other reservations, which replace its own, or the problems
// that these have.
func (t *Tree) With(reservations []Reservation) (*Tree, []ReservationProblem) {
	var problems []ReservationProblem
	for _, r := range reservations {
		switch _, ok := t.byName[r.Queue]; {
		case !ok:
			problems = append(problems, ReservationProblem{r.Name, "queue", fmt.Sprintf("there is no queue %q", r.Queue), "name one of the pool's queue blocks"})
		case r.Slots < 1 || r.Slots > MostSlots:
			problems = append(problems, ReservationProblem{r.Name, "slots", fmt.Sprintf("%d is out of range", r.Slots), fmt.Sprintf("write a number from 1 to %d", MostSlots)})
		case !(r.Until > r.From):
			problems = append(problems, ReservationProblem{r.Name, "until", "it ends before it begins", "write a time after from"})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	out := *t
	out.reservations = slices.Clone(reservations)
	return &out, out.aboveLimits()
}

// WithoutReservations returns the tree without its reservations.
func (t *Tree) WithoutReservations() *Tree {
	out := *t
	out.reservations = nil
	return &out
}

// aboveLimits returns the reservations that bring the guarantee of a queue above its limit
// at some time.
func (t *Tree) aboveLimits() (problems []ReservationProblem) {
	for _, r := range t.reservations {
		l := t.Layout()
		l.At(r.From)
		l.Path(t.byName[r.Queue], func(n int) bool {
			if node := &l.Nodes[n]; node.Limit > 0 && node.Guarantee > node.Limit {
				problems = append(problems, ReservationProblem{
					r.Name, "slots", fmt.Sprintf("with it, queue %q is guaranteed %d slots, and its limit is %d", node.Name, node.Guarantee, node.Limit),
					"reserve less, or raise the limit",
				})
				return false
			}
			return true
		})
	}
	return problems
}

// At adds the reservations that are in force at the time now to the guarantees. It returns
// the time at which the next reservation begins or ends, or 0 if there is none.
func (l *Layout) At(now float64) (next float64) {
	soon := func(at float64) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}
	for _, r := range l.tree.reservations {
		if r.Until <= now {
			continue
		}
		soon(r.From)
		soon(r.Until)
		l.Path(l.byName[r.Queue], func(n int) bool {
			if r.From <= now {
				l.Nodes[n].Guarantee += r.Slots
			} else {
				l.Nodes[n].Later += r.Slots
			}
			return n > 0
		})
	}
	return next
}
