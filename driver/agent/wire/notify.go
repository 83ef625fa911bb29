// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Notify is a notice to rank 0. It is sent to every host, so that the next leader can learn
// the timestamp of the last notice from any host.
type Notify struct {
	elastic.Notify
	// Timestamp is the notice's time, which the framework compares with earlier ones; 0
	// lets the host choose it.
	Timestamp int64 `json:"timestamp,omitempty"`
}

// NotifyClock makes the timestamps of notices. Horovod ignores a notice that is not newer
// than the last one that its ring acted on (horovod/common/elastic.py, check_host_updates),
// and with each commit all processes adopt the newest timestamp of rank 0. So timestamps
// must grow from ring to ring, across changes of the leader and of rank 0. A repeated
// notice carries the current time, never a later one. Otherwise the next leader, if it does
// not know of that notice, would make timestamps that Horovod ignores until the clock has
// caught up.
type NotifyClock struct {
	last       int64
	generation uint64 // generation of the ring that last was for
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

// Heard records a timestamp that another host or leader made.
func (n *NotifyClock) Heard(timestamp int64) { n.last = max(n.last, timestamp) }

// Last returns the newest timestamp that was made here or heard of.
func (n *NotifyClock) Last() int64 { return n.last }
