// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Notify is a notice on its way to rank 0. Every host gets it, so that the
// timestamp is known to whoever leads next.
type Notify struct {
	elastic.Notify
	// Timestamp is what Horovod compares; 0 leaves it to the host.
	Timestamp int64 `json:"timestamp,omitempty"`
}

// noticeTimes gives out the timestamps of notices. Horovod ignores a notice
// that is not newer than the last that its ring acted on (horovod/common/
// elastic.py, check_host_updates), and with each commit all processes take over
// what rank 0 knows. So timestamps grow from ring to ring, whoever leads and
// wherever rank 0 is. Repeated ones only follow the clock: those that ran ahead
// of it would make a leader who has not heard of them wait.
type noticeTimes struct {
	last       int64
	generation uint64 // of the ring that last is for
}

// next returns the timestamp, in Unix seconds, of a notice to a ring.
func (n *noticeTimes) next(generation uint64, now time.Time) int64 {
	if n.generation != generation {
		n.generation = generation
		n.last++
	}
	n.last = max(n.last, now.Unix())
	return n.last
}

// heard takes in a timestamp that somebody else gave out.
func (n *noticeTimes) heard(timestamp int64) { n.last = max(n.last, timestamp) }
