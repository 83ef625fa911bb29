// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import "time"

// backoff decides when to repeat a failed attempt; the zero value means that
// nothing has failed. It replaces cenkalti/backoff for three reasons: time is
// passed in, the first interval depends on the failure, and one machine needs no
// jitter. Only the doubling of the library would remain.
type backoff struct {
	next  time.Time
	times int
}

// maxBackoff is the longest time between two attempts.
const maxBackoff = time.Hour

// failed postpones the next attempt by first, and doubles the delay each further
// time.
func (b *backoff) failed(now time.Time, first time.Duration) {
	b.next = now.Add(min(first<<min(b.times, 10), maxBackoff))
	b.times++
}
