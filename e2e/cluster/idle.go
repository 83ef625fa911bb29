// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "time"

// An Idle bounds a wait by progress: on a busy machine a wait may take any time as long as
// something happens. The zero value is ready to use.
type Idle[T comparable] struct {
	last  T
	since time.Time
}

// For returns how long the value of seen has stayed the same. seen stands for everything
// that has happened so far. The first call returns 0.
func (i *Idle[T]) For(seen T, now time.Time) time.Duration {
	if i.since.IsZero() || seen != i.last {
		i.last, i.since = seen, now
	}
	return now.Sub(i.since)
}
