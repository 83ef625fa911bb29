// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// cause tells kinds of trouble apart. A GPU can have several at once.
type cause string

const (
	causeNVML     cause = "nvml"     // NVML as a whole is away
	causeCall     cause = "call"     // a call about the GPU fails or hangs
	causeLost     cause = "lost"     // the GPU is lost, unlisted or wants a reset
	causeFabric   cause = "fabric"   // the NVLink fabric is not set up
	causeIsland   cause = "island"   // the NVLinks to the rest of its group are down
	causeMemory   cause = "memory"   // bad memory cannot be taken out of use
	causeRecovery cause = "recovery" // the driver wants something done
	causeXID      cause = "xid"      // the driver reported an error
	causeECC      cause = "ecc"      // an error that ECC could not correct
)

// passing are the causes that often end by themselves within seconds.
var passing = map[cause]bool{causeNVML: true, causeCall: true, causeFabric: true, causeIsland: true}

// held are the causes that are reported once, and held for a time.
var held = map[cause]bool{causeXID: true, causeECC: true}

// trouble is one thing that is wrong with a unit.
type trouble struct {
	// why is shown to people. It must not change while the trouble is the same,
	// for each change is a message to Nomad.
	why string
	// since is when it began, or for held causes last happened.
	since time.Time
}

// health is the state of one unit. It is a pure state machine: time is passed
// in.
//
//	        trouble (at once, or lasting over the grace time)
//	healthy ────────────────────────────────────────────────> unhealthy
//	   ^                                                          │
//	   └── no trouble for healthy_after, doubled for each relapse ┘
type health struct {
	cfg     HealthConfig
	ok      bool
	reason  string // of the last time it was not ok
	trouble map[cause]trouble
	// clear is when the last trouble ended; zero while there is any.
	clear time.Time
	// falls are the times of falling ill within the last hour.
	falls []time.Time
	ecc   *uint64 // uncorrected errors when last seen
	seen  bool
}

func newHealth(cfg HealthConfig) *health {
	return &health{cfg: cfg, ok: true, trouble: map[cause]trouble{}}
}

// relapse is how long a fall counts towards a longer wait.
const relapse = time.Hour

// maxDoubling bounds the wait to 16 times healthy_after.
const maxDoubling = 4

// absent are the causes for which a GPU cannot be used at all. They count also
// where nobody wants health to be judged.
var absent = map[cause]bool{causeNVML: true, causeLost: true}

// set says that a cause of trouble is there (why is not empty) or not.
func (h *health) set(now time.Time, c cause, why string) {
	if !h.cfg.Enabled && !absent[c] {
		return
	}
	if why == "" {
		delete(h.trouble, c)
		return
	}
	t, there := h.trouble[c]
	if !there || held[c] {
		t.since = now
	}
	t.why = why
	h.trouble[c] = t
}

// cameBack says that a GPU that was lost is there again, as after a reset: what
// it was held for is over.
func (h *health) cameBack() {
	for c := range held {
		delete(h.trouble, c)
	}
}

// has tells whether a cause is there.
func (h *health) has(c cause) bool {
	_, there := h.trouble[c]
	return there
}

// uncorrected takes the counter of errors that ECC could not correct. What it
// stood at when first seen happened before, perhaps to another job.
func (h *health) uncorrected(now time.Time, errors uint64) {
	if h.ecc != nil && errors > *h.ecc {
		h.set(now, causeECC, "memory errors that ECC could not correct")
	}
	h.ecc = &errors
}

// settle decides on the state after the causes were set. It returns whether the
// state or its reason changed.
func (h *health) settle(now time.Time) bool {
	for c := range held {
		if t, ok := h.trouble[c]; ok && h.cfg.XIDRecovery > 0 && now.Sub(t.since) >= h.cfg.XIDRecovery {
			delete(h.trouble, c)
		}
	}
	h.falls = slices.DeleteFunc(h.falls, func(t time.Time) bool { return now.Sub(t) >= relapse })

	ok, reason := h.ok, h.reason
	first := !h.seen
	h.seen = true
	switch {
	case len(h.trouble) == 0:
		if h.clear.IsZero() {
			h.clear = now
		}
		if !h.ok && now.Sub(h.clear) >= h.wait() {
			h.ok, h.reason = true, ""
		}
	default:
		h.clear = time.Time{}
		if why := h.counting(now, first); why != "" {
			if h.ok {
				h.falls = append(h.falls, now)
			}
			h.ok, h.reason = false, why
		}
	}
	return ok != h.ok || reason != h.reason
}

// wait is how long all must be well.
func (h *health) wait() time.Duration {
	doubling := min(max(len(h.falls)-1, 0), maxDoubling)
	return h.cfg.HealthyAfter << doubling
}

// counting lists the trouble that counts now. A unit that is ill already, or
// was never seen well, gets no grace.
func (h *health) counting(now time.Time, first bool) string {
	var whys []string
	for _, c := range slices.Sorted(maps.Keys(h.trouble)) {
		t := h.trouble[c]
		if h.ok && !first && passing[c] && now.Sub(t.since) < h.cfg.Grace {
			continue
		}
		whys = append(whys, t.why)
	}
	return strings.Join(whys, "; ")
}

// xidMeanings are the XIDs that operators meet most, for a reason that can be
// acted on.
var xidMeanings = map[uint64]string{
	48:  "double-bit ECC error",
	62:  "internal micro-controller halt",
	63:  "row remapping or page retirement",
	64:  "row remapping or page retirement failed",
	74:  "NVLink error",
	79:  "the GPU has fallen off the bus",
	92:  "high rate of single-bit ECC errors",
	94:  "contained memory error",
	95:  "uncontained memory error",
	119: "the GPU's system processor does not answer",
	120: "error of the GPU's system processor",
	140: "unrecovered ECC error",
}

func xidText(xid uint64) string {
	if meaning, ok := xidMeanings[xid]; ok {
		return fmt.Sprintf("XID %d (%s)", xid, meaning)
	}
	return fmt.Sprintf("XID %d", xid)
}
