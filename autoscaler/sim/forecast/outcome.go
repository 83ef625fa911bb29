// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast

import "slices"

// outcome holds the starts of one job in all runs.
type outcome struct {
	least []float64 // the start or, if the job did not start, the end of the run
	never int       // runs in which it did not start
}

func (o *outcome) add(start, ended float64) {
	if start == 0 {
		o.never++
		start = ended
	}
	o.least = append(o.least, start)
}

// set sets the range of a start from the runs.
func (o *outcome) set(s *Start, now float64, guessed bool) {
	slices.Sort(o.least)
	n := len(o.least)
	s.Earliest = o.least[0]
	if !guessed && o.never == 0 {
		s.Middle, s.Latest = o.least[n/2], o.least[n-1]
		return
	}
	if s.Earliest <= now || s.Earliest >= now+ahead { // in no simulation, that is
		s.Earliest = 0
	}
}
