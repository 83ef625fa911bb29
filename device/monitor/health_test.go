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

// step is what happens at a second, and whether the unit is healthy after it.
type step struct {
	at   int
	do   func(h *health, now time.Time)
	want bool
}

func faulty(c cause, why string) func(*health, time.Time) {
	return func(h *health, now time.Time) { h.set(now, c, why) }
}

func nothing(*health, time.Time) {}

func ecc(errors uint64) func(*health, time.Time) {
	return func(h *health, now time.Time) { h.countUncorrected(now, errors) }
}

var healthCases = map[string][]step{
	"healthy from the first check": {{0, nothing, true}},
	"unhealthy at the first check, even if the fault is transient": {
		{0, faulty(causeFabric, "still registering"), false},
	},
	"a lost GPU at once, and back after a time": {
		{0, nothing, true},
		{5, faulty(causeLost, "lost"), false},
		{100, faulty(causeLost, ""), false},
		{129, nothing, false},
		{130, nothing, true},
	},
	"a short failure does not count": {
		{0, nothing, true},
		{5, faulty(causeCall, "timeout"), true},
		{10, faulty(causeCall, "timeout"), true},
		{14, faulty(causeCall, ""), true},
		{15, faulty(causeCall, "timeout"), true},
		{24, faulty(causeCall, "timeout"), true},
		{25, faulty(causeCall, "timeout"), false},
	},
	"a relapse restarts the wait, and doubles it": {
		{0, nothing, true},
		{10, faulty(causeLost, "lost"), false},
		{20, faulty(causeLost, ""), false},
		{40, faulty(causeLost, "lost"), false}, // still unhealthy: no new failure
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
		{610, nothing, false},                    // the first one is over
		{700, nothing, false},
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
	"a counter that was reset is no error": {
		{0, ecc(7), true},
		{10, ecc(0), true},
	},
}

func TestHealth(t *testing.T) {
	for name, steps := range healthCases {
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

// With health checks disabled, a lost GPU is still unhealthy.
func TestHealthDisabled(t *testing.T) {
	c := testHealth()
	c.Enabled = false
	h := newHealth(c)
	for _, c := range []cause{causeCall, causeFabric, causeIsland, causeMemory, causeRecovery, causeXID, causeECC} {
		h.set(epoch, c, "fault")
	}
	must.False(t, h.decide(epoch))
	must.True(t, h.healthy)
	h.set(epoch, causeLost, "lost")
	must.True(t, h.decide(epoch))
	must.Eq(t, "lost", h.reason)
}

func TestLatchedForEverWithoutRecovery(t *testing.T) {
	c := testHealth()
	c.XIDRecovery = 0
	h := newHealth(c)
	h.decide(epoch)
	h.set(epoch, causeXID, "XID 95")
	h.decide(epoch)
	h.decide(epoch.Add(1000 * time.Hour))
	must.False(t, h.healthy)
}

// A unit is never healthy with a fault that is not transient, nor before it was
// free of faults for the shortest wait. A unit that stays free of faults becomes
// healthy.
func TestHealthProperties(t *testing.T) {
	causes := []cause{causeNVML, causeCall, causeLost, causeFabric, causeMemory, causeRecovery, causeXID, causeECC}
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testHealth()
		h := newHealth(cfg)
		now := epoch
		var faulty time.Time // when there was a fault last
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
			wasHealthy := h.healthy
			h.decide(now)
			for c := range h.faults {
				if !transient[c] {
					must.False(rt, h.healthy, must.Sprintf("healthy with %s", c))
				}
			}
			if len(h.faults) > 0 {
				faulty = now
			}
			if !wasHealthy && h.healthy {
				must.GreaterEq(rt, cfg.HealthyAfter, now.Sub(faulty))
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
