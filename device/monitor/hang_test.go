// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"runtime"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

func TestHangingGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.CallTimeout = 300 * time.Millisecond })
	r.hw.Hang(3)
	r.pass(5 * time.Second) // the call begins
	r.pass(5 * time.Second) // it counts as hung
	must.MapEmpty(t, r.unhealthy())
	r.pass(10 * time.Second) // and the grace is over
	must.Eq(t, map[string]string{
		r.hw.UUIDs()[3]: "the GPU does not answer: the call does not return",
	}, r.unhealthy())
	must.MapLen(t, 7, r.m.Readings())
	must.False(t, r.published(func() { r.m.refresh(r.now) }))
	must.Len(t, 8, r.view().Layout.Units)

	// The abandoned call must return before the GPU answers.
	r.hw.Return(3)
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool { r.pass(time.Minute); return len(r.unhealthy()) == 0 }),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
}

// A hanging GPU does not delay the others: they are read, and readings are
// published, long before the call counts as hung.
func TestHangingGPUDelaysNoOther(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.CallTimeout = time.Hour })
	r.hw.Hang(3)
	r.hw.Set(4, "temperature", "77")
	r.pass(5 * time.Second)
	readings := r.m.Readings()
	must.Eq(t, 77, *readings[r.hw.UUIDs()[4]].Sample.TemperatureC)
	must.MapLen(t, 8, readings) // including the last one of the hanging GPU
	must.MapEmpty(t, r.unhealthy())

	// It is not sampled again, nor waited for.
	before, goroutines := r.hw.Calls(), runtime.NumGoroutine()
	for range 20 {
		r.pass(time.Second)
	}
	must.Less(t, goroutines+10, runtime.NumGoroutine(), must.Sprint("no goroutine is abandoned each time"))
	must.Greater(t, before, r.hw.Calls())

	r.hw.Set(3, "temperature", "66")
	r.hw.Return(3)
	select {
	case late := <-r.m.sampled:
		r.m.takeLate(r.now, late)
	case <-time.After(time.Minute):
		t.Fatal("the sample never came")
	}
	must.Eq(t, 66, *r.m.Readings()[r.hw.UUIDs()[3]].Sample.TemperatureC)
}

// Two hanging GPUs are not mistaken for unlisted ones, even when the machine is
// read again.
func TestTwoHangingGPUs(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.CallTimeout = 300 * time.Millisecond })
	r.hw.Hang(3)
	r.hw.Hang(6)
	r.pass(5 * time.Second)
	r.pass(5 * time.Second)
	r.pass(10 * time.Second)
	r.m.refresh(r.now)
	const reason = "the GPU does not answer: the call does not return"
	must.Eq(t, map[string]string{r.hw.UUIDs()[3]: reason, r.hw.UUIDs()[6]: reason}, r.unhealthy())
	// NVML must not be closed under them.
	r.m.disconnect(nil)
	must.True(t, r.m.connected)
	r.hw.Return(3)
	r.hw.Return(6)
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool { r.pass(time.Minute); return len(r.unhealthy()) == 0 }),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
}

func TestHangingLibrary(t *testing.T) {
	r := newRig(t, "hgx-h100", func(c *Config) { c.Health.CallTimeout = 300 * time.Millisecond })
	r.hw.HangAll(1)
	r.pass(5 * time.Second)
	r.pass(15 * time.Second)
	must.MapLen(t, 8, r.unhealthy())
	must.Eq(t, "NVML is not available: the call does not return", r.unhealthy()[r.hw.UUIDs()[0]])
	r.hw.HangAll(0)
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool { r.pass(time.Minute); return len(r.unhealthy()) == 0 }),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
}
