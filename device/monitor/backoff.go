// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import "time"

// backoff is when a failed attempt is repeated; the zero value is nothing that
// failed. It is in place of cenkalti/backoff because time is passed in, the
// first interval depends on what failed, and no jitter is wanted on one machine:
// all that would remain of the library is a doubling.
type backoff struct {
	next  time.Time
	times int
}

// maxBackoff is the longest time between two attempts.
const maxBackoff = time.Hour

// failed postpones the next attempt by first, and by twice as long each further
// time.
func (b *backoff) failed(now time.Time, first time.Duration) {
	b.next = now.Add(min(first<<min(b.times, 10), maxBackoff))
	b.times++
}
