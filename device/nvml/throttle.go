// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

// ThrottleReason is a reason why a GPU's clocks are lower than possible.
type ThrottleReason struct {
	// Name is for people.
	Name string
	bit  uint64
}

// In reports whether the reason is set in mask, a bit mask from [Rest].
func (t ThrottleReason) In(mask uint64) bool { return mask&t.bit != 0 }

// ThrottleReasons returns all reasons that count as throttling. Low clocks of an
// idle GPU, and clocks that a user has set, do not count.
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
