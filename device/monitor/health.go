// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// cause is a kind of fault. A unit can have several at once.
type cause string

const (
	causeNVML     cause = "nvml"     // NVML as a whole is unavailable
	causeCall     cause = "call"     // a call about the GPU fails or hangs
	causeLost     cause = "lost"     // the GPU is lost, unlisted or needs a reset
	causeFabric   cause = "fabric"   // the NVLink fabric is not set up
	causeIsland   cause = "island"   // the NVLinks to the rest of its group are down
	causeMemory   cause = "memory"   // bad memory cannot be taken out of use
	causeRecovery cause = "recovery" // the driver requests a recovery action
	causeXID      cause = "xid"      // the driver reported an error
	causeECC      cause = "ecc"      // an error that ECC could not correct
)

// transient holds the causes that often end by themselves within seconds.
var transient = map[cause]bool{causeNVML: true, causeCall: true, causeFabric: true, causeIsland: true}

// latched holds the causes that are reported as events, and hold for a time.
var latched = map[cause]bool{causeXID: true, causeECC: true}

// unusable holds the causes with which a GPU cannot be used at all. They count even
// if health checks are disabled.
var unusable = map[cause]bool{causeNVML: true, causeLost: true}

const uncorrectedText = "memory errors that ECC could not correct"

// fault is one problem of a unit.
type fault struct {
	// reason is for people. It must not change during one fault, because each
	// change makes a new view.
	reason string
	// since is when the fault began or, for latched causes, last occurred.
	since time.Time
}

// health is the state of one unit. It is a pure state machine; time is passed in.
//
//	        fault (at once, or lasting over the grace time)
//	healthy ────────────────────────────────────────────────> unhealthy
//	   ^                                                          │
//	   └── no fault for healthy_after, doubled for each relapse ──┘
type health struct {
	cfg     HealthConfig
	healthy bool
	reason  string // why the unit is not healthy
	faults  map[cause]fault
	// clearSince is when the last fault ended; zero while there is one.
	clearSince time.Time
	// failures are the times within the last hour at which the unit became
	// unhealthy.
	failures    []time.Time
	uncorrected *uint64 // the last value of the ECC counter
	decided     bool    // a decision was made at least once
}

func newHealth(cfg HealthConfig) *health {
	return &health{cfg: cfg, healthy: true, faults: map[cause]fault{}}
}

// relapseWindow is how long a failure counts towards a longer wait.
const relapseWindow = time.Hour

// maxDoubling bounds the wait to 16 times healthy_after.
const maxDoubling = 4

// set adds a fault, or removes it if the reason is empty.
func (h *health) set(now time.Time, c cause, reason string) {
	if !h.cfg.Enabled && !unusable[c] {
		return
	}
	if reason == "" {
		delete(h.faults, c)
		return
	}
	f, known := h.faults[c]
	if !known || latched[c] {
		f.since = now
	}
	f.reason = reason
	h.faults[c] = f
}

// clearLatched removes the faults that a GPU had before it was lost and came back,
// as after a reset.
func (h *health) clearLatched() {
	for c := range latched {
		delete(h.faults, c)
	}
}

// has reports whether a unit has a fault with this cause.
func (h *health) has(c cause) bool {
	_, known := h.faults[c]
	return known
}

// countUncorrected records the counter of uncorrected ECC errors. The first value
// includes earlier errors, perhaps of another job, and does not count.
func (h *health) countUncorrected(now time.Time, errors uint64) {
	if h.uncorrected != nil && errors > *h.uncorrected {
		h.set(now, causeECC, uncorrectedText)
	}
	h.uncorrected = &errors
}

// decide updates the state after faults were set. It reports whether the state or
// its reason changed.
func (h *health) decide(now time.Time) bool {
	h.expire(now)
	wasHealthy, before := h.healthy, h.reason
	first := !h.decided
	h.decided = true
	if len(h.faults) == 0 {
		if h.clearSince.IsZero() {
			h.clearSince = now
		}
		if !h.healthy && now.Sub(h.clearSince) >= h.wait() {
			h.healthy, h.reason = true, ""
		}
	} else {
		h.clearSince = time.Time{}
		if reason := h.effective(now, first); reason != "" {
			if h.healthy {
				h.failures = append(h.failures, now)
			}
			h.healthy, h.reason = false, reason
		}
	}
	return wasHealthy != h.healthy || before != h.reason
}

// expire removes latched faults and failures that are old enough.
func (h *health) expire(now time.Time) {
	for c := range latched {
		if f, ok := h.faults[c]; ok && h.cfg.XIDRecovery > 0 && now.Sub(f.since) >= h.cfg.XIDRecovery {
			delete(h.faults, c)
		}
	}
	h.failures = slices.DeleteFunc(h.failures, func(t time.Time) bool { return now.Sub(t) >= relapseWindow })
}

// wait returns how long a unit must be free of faults.
func (h *health) wait() time.Duration {
	doubling := min(max(len(h.failures)-1, 0), maxDoubling)
	return h.cfg.HealthyAfter << doubling
}

// effective joins the reasons of the faults that count now. A unit that is already
// unhealthy, or was never healthy, gets no grace time.
func (h *health) effective(now time.Time, first bool) string {
	var reasons []string
	for _, c := range slices.Sorted(maps.Keys(h.faults)) {
		f := h.faults[c]
		if h.healthy && !first && transient[c] && now.Sub(f.since) < h.cfg.Grace {
			continue
		}
		reasons = append(reasons, f.reason)
	}
	return strings.Join(reasons, "; ")
}
