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

// TimeToLeave returns how long a stopped task may take to leave. That follows from the
// time of its kill (see LeaveWithin), which the driver writes to StopFile when Nomad
// stops the task. Without the file, TimeToLeave returns LeaveTimeout.
func (c *Config) TimeToLeave(now time.Time) time.Duration {
	note, _ := os.ReadFile(c.StopFile) // missing if the signal did not come from the driver
	kill, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(note)))
	if err != nil {
		return time.Duration(c.LeaveTimeout)
	}
	return LeaveWithin(max(kill.Sub(now), 0))
}

// LeaveWithin returns how long a task may take to leave if it is killed after the time
// kill. That is a little less than kill.
func LeaveWithin(kill time.Duration) time.Duration { return kill - min(kill/5, stopMargin) }
