// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import "time"

// backoff is when something that failed, so many times in a row, is tried again;
// zero is nothing that failed.
type backoff struct {
	next  time.Time
	times int
}

// maxBackoff is the longest time between two attempts.
const maxBackoff = time.Hour

// failed puts the next attempt off: at first for so long, then twice as long each
// time.
func (b *backoff) failed(now time.Time, first time.Duration) {
	b.next = now.Add(min(first<<min(b.times, 10), maxBackoff))
	b.times++
}
