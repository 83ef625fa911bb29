// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

// ThrottleReason is a reason for clocks that are lower than possible.
type ThrottleReason struct {
	// Name is for people.
	Name string
	bit  uint64
}

// In reports whether a mask of [Rest] contains the reason.
func (t ThrottleReason) In(mask uint64) bool { return mask&t.bit != 0 }

// ThrottleReasons returns all reasons. An idle GPU, or clocks set by a user, are
// not throttling.
func ThrottleReasons() []ThrottleReason {
	return []ThrottleReason{
		{"power cap", 0x4},
		{"hardware slowdown", 0x8},
		{"sync boost", 0x10},
		{"software thermal slowdown", 0x20},
		{"hardware thermal slowdown", 0x40},
		{"power brake", 0x80},
	}
}
