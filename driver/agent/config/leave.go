// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"strings"
	"time"
)

// stopMargin bounds the part of the time to leave that is reserved for ending slots and
// reporting to the leader.
const stopMargin = 2 * time.Second

// TimeToLeave returns how long a stopped task may take to leave the ring. When Nomad
// stops the task, the driver writes the time at which Nomad will kill it to StopFile;
// the task must leave a little earlier (see LeaveWithin). Without the file, TimeToLeave
// returns LeaveTimeout.
func (c *Config) TimeToLeave(now time.Time) time.Duration {
	note, _ := os.ReadFile(c.StopFile) // missing if the signal did not come from the driver
	kill, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(note)))
	if err != nil {
		return time.Duration(c.LeaveTimeout)
	}
	return LeaveWithin(max(kill.Sub(now), 0))
}

// LeaveWithin returns how long a task may take to leave the ring if Nomad kills it
// after the time kill. This is a little less than kill, so that time is left to end
// slots and to report to the leader.
func LeaveWithin(kill time.Duration) time.Duration { return kill - min(kill/5, stopMargin) }
