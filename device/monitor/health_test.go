// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testHealth() HealthConfig {
	c := DefaultConfig().Health
	c.Grace, c.HealthyAfter, c.XIDRecovery = 10*time.Second, 30*time.Second, 10*time.Minute
	return c
}

// step is what happens at a second, and what the state must be after it.
type step struct {
	at   int
	do   func(h *health, now time.Time)
	want bool
}

func faulty(c cause, why string) func(*health, time.Time) {
	return func(h *health, now time.Time) { h.set(now, c, why) }
}

func nothing(*health, time.Time) {}

func TestHealth(t *testing.T) {
	ecc := func(n uint64) func(*health, time.Time) {
		return func(h *health, now time.Time) { h.countUncorrected(now, n) }
	}
	for name, steps := range map[string][]step{
		"well from the first look": {{0, nothing, true}},
		"ill at the first look, even if it may pass": {
			{0, faulty(causeFabric, "still registering"), false},
		},
		"a lost GPU at once, and back after a time": {
			{0, nothing, true},
			{5, faulty(causeLost, "lost"), false},
			{100, faulty(causeLost, ""), false},
			{129, nothing, false},
			{130, nothing, true},
		},
		"a short failure counts for nothing": {
			{0, nothing, true},
			{5, faulty(causeCall, "timeout"), true},
			{10, faulty(causeCall, "timeout"), true},
			{14, faulty(causeCall, ""), true},
			{15, faulty(causeCall, "timeout"), true},
			{24, faulty(causeCall, "timeout"), true},
			{25, faulty(causeCall, "timeout"), false},
		},
		"a flap begins the wait anew, and doubles it": {
			{0, nothing, true},
			{10, faulty(causeLost, "lost"), false},
			{20, faulty(causeLost, ""), false},
			{40, faulty(causeLost, "lost"), false}, // still ill: no new fall
			{50, faulty(causeLost, ""), false},
			{80, nothing, true},
			{90, faulty(causeLost, "lost"), false},
			{100, faulty(causeLost, ""), false},
			{130, nothing, false},
			{159, nothing, false},
			{160, nothing, true},
		},
		"an XID holds for its time": {
			{0, nothing, true},
			{10, faulty(causeXID, "XID 48"), false},
			{300, faulty(causeXID, "XID 48"), false}, // again
			{899, nothing, false},
			{900, nothing, false}, // now the wait of 30 s
			{930, nothing, true},
		},
		"a GPU that was reset is not held for what was before": {
			{0, nothing, true},
			{10, faulty(causeXID, "XID 79"), false},
			{20, func(h *health, _ time.Time) { h.clearLatched() }, false},
			{50, nothing, true},
		},
		"uncorrected errors of before do not count, new ones do": {
			{0, ecc(7), true},
			{10, ecc(7), true},
			{20, ecc(8), false},
		},
		"a counter that began anew is no error": {
			{0, ecc(7), true},
			{10, ecc(0), true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHealth(testHealth())
			for _, s := range steps {
				now := epoch.Add(time.Duration(s.at) * time.Second)
				s.do(h, now)
				before, reason := h.healthy, h.reason
				changed := h.decide(now)
				must.Eq(t, s.want, h.healthy, must.Sprintf("at %d s", s.at))
				must.Eq(t, changed, before != h.healthy || reason != h.reason)
				must.Eq(t, h.healthy, h.reason == "")
			}
		})
	}
}

// Where health is not judged, a GPU that is not there is still none to use.
func TestHealthSwitchedOff(t *testing.T) {
	c := testHealth()
	c.Enabled = false
	h := newHealth(c)
	for _, judged := range []cause{causeCall, causeFabric, causeIsland, causeMemory, causeRecovery, causeXID, causeECC} {
		h.set(epoch, judged, "trouble")
	}
	must.False(t, h.decide(epoch))
	must.True(t, h.healthy)
	h.set(epoch, causeLost, "lost")
	must.True(t, h.decide(epoch))
	must.Eq(t, "lost", h.reason)
}

func TestHealthHoldsForEverWithoutRecovery(t *testing.T) {
	c := testHealth()
	c.XIDRecovery = 0
	h := newHealth(c)
	h.decide(epoch)
	h.set(epoch, causeXID, "XID 95")
	h.decide(epoch)
	h.decide(epoch.Add(1000 * time.Hour))
	must.False(t, h.healthy)
}

// Whatever happens, a unit is never called healthy while there is trouble that
// does not pass, nor before it was well for the shortest wait, and one that
// stays well becomes healthy at last.
func TestHealthProperties(t *testing.T) {
	causes := []cause{causeNVML, causeCall, causeLost, causeFabric, causeMemory, causeRecovery, causeXID, causeECC}
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testHealth()
		h := newHealth(cfg)
		now := epoch
		var ill time.Time // the last time trouble was there while it was ill
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 120).Draw(rt, "seconds")) * time.Second)
			c := rapid.SampledFrom(causes).Draw(rt, "cause")
			why := ""
			if rapid.IntRange(0, 3).Draw(rt, "fault") == 0 {
				why = string(c)
			}
			if why != "" || !latched[c] {
				h.set(now, c, why)
			}
			wasOK := h.healthy
			h.decide(now)
			for c := range h.faults {
				if !transient[c] {
					must.False(rt, h.healthy, must.Sprintf("healthy with %s", c))
				}
			}
			if len(h.faults) > 0 {
				ill = now
			}
			if !wasOK && h.healthy {
				must.GreaterEq(rt, cfg.HealthyAfter, now.Sub(ill))
			}
		}
		for c := range h.faults {
			if !latched[c] {
				h.set(now, c, "")
			}
		}
		now = now.Add(cfg.XIDRecovery)
		h.decide(now)
		h.decide(now.Add(cfg.HealthyAfter << maxDoubling))
		must.True(rt, h.healthy)
	})
}
