// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "time"

// An Idle measures how long nothing has happened. A wait that is limited by it may take
// any time on a busy machine, as long as there is progress. The zero value is ready to
// use.
type Idle[T comparable] struct {
	last  T
	since time.Time
}

// For returns how long seen has had the same value. The caller chooses a value that
// changes whenever something happens, such as the number of events so far. The first
// call returns 0.
func (i *Idle[T]) For(seen T, now time.Time) time.Duration {
	if i.since.IsZero() || seen != i.last {
		i.last, i.since = seen, now
	}
	return now.Sub(i.since)
}
