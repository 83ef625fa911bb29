// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Notify is a notice on its way to rank 0. Every host gets it, so that the
// timestamp is known to the next leader.
type Notify struct {
	elastic.Notify
	// Timestamp is what the framework compares; 0 leaves it to the host.
	Timestamp int64 `json:"timestamp,omitempty"`
}

// NotifyClock gives out the timestamps of notices. Horovod ignores a notice
// that is not newer than the last that its ring acted on (horovod/common/
// elastic.py, check_host_updates), and with each commit all processes take over
// what rank 0 knows. So timestamps grow from ring to ring, through changes of the
// leader and of rank 0. Repeated ones only follow the clock: those that ran ahead
// of it would make a leader that does not know them wait.
type NotifyClock struct {
	last       int64
	generation uint64 // of the ring that last is for
}

// Next returns the timestamp, in Unix seconds, of a notice to a ring.
func (n *NotifyClock) Next(generation uint64, now time.Time) int64 {
	if n.generation != generation {
		n.generation = generation
		n.last++
	}
	n.last = max(n.last, now.Unix())
	return n.last
}

// Heard takes in a timestamp that another host or leader gave out.
func (n *NotifyClock) Heard(timestamp int64) { n.last = max(n.last, timestamp) }

// Last is the newest timestamp that was given out or heard.
func (n *NotifyClock) Last() int64 { return n.last }
