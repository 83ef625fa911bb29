// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "time"

// An Idle bounds a wait by progress: a wait on a busy machine may take as long as it
// does, if only something happens. The zero value is ready.
type Idle[T comparable] struct {
	last  T
	since time.Time
}

// For returns for how long seen, which stands for what has happened so far, has not
// changed. The first call returns 0.
func (i *Idle[T]) For(seen T, now time.Time) time.Duration {
	if i.since.IsZero() || seen != i.last {
		i.last, i.since = seen, now
	}
	return now.Sub(i.since)
}
