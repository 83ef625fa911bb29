// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

func TestNoViewWithoutAChange(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	must.False(t, r.published(func() { r.m.refresh(r.now) }))
	r.hw.Set(0, "temperature", "77")
	r.hw.Set(0, "power", "690000")
	must.False(t, r.published(func() { r.pass(5 * time.Second) }))
}

func TestLostGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Lose(2)
	must.True(t, r.published(func() { r.pass(5 * time.Second) }))
	must.Eq(t, map[string]string{r.hw.UUIDs()[2]: "the GPU has fallen off the bus"}, r.unhealthy())
	must.Len(t, 8, r.view().Layout.Units)

	// It stays in the view, with all of its known facts, after the machine was read again.
	topologies := r.topologies()
	must.False(t, r.published(func() { r.m.refresh(r.now.Add(time.Second)) }))
	must.Eq(t, topologies, r.topologies())

	// It is back, but not healthy until it has had no fault for a while.
	r.hw.Return(2)
	must.False(t, r.published(func() { r.pass(20 * time.Second); r.pass(20 * time.Second) }))
	must.True(t, r.published(func() { r.pass(20 * time.Second) }))
	must.MapEmpty(t, r.unhealthy())
}

func TestGPUThatIsNotListedAnyMore(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Unplug(7)
	r.pass(5 * time.Second)
	must.Eq(t, map[string]string{r.hw.UUIDs()[7]: "NVML no longer lists the GPU"}, r.unhealthy())
	r.hw.Return(7)
	r.pass(5 * time.Second)
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.unhealthy())
}

func TestXID(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(1, 31) // a page fault of some program
	r.event()
	must.MapEmpty(t, r.unhealthy())

	r.hw.XID(1, 48)
	must.True(t, r.published(r.event))
	must.Eq(t, map[string]string{r.hw.UUIDs()[1]: "XID 48 (double-bit ECC error)"}, r.unhealthy())

	r.hw.DoubleBit(6)
	r.event()
	must.MapLen(t, 2, r.unhealthy())

	r.pass(10 * time.Minute)
	must.MapLen(t, 2, r.unhealthy())
	r.pass(time.Minute)
	must.MapEmpty(t, r.unhealthy())
}

// After a reset, a GPU is healthy again before xid_recovery is over.
func TestXIDEndsWithAReset(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(1, 79)
	r.event()
	r.hw.Lose(1)
	r.pass(5 * time.Second)
	must.Eq(t, "the GPU has fallen off the bus; XID 79 (the GPU has fallen off the bus)", r.unhealthy()[r.hw.UUIDs()[1]])
	r.hw.Return(1)
	r.reopen()
	r.pass(5 * time.Second)
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.unhealthy())
}

// The XID of a GPU that has fallen off the bus arrives when the GPU can no longer be
// queried. It does not count for the other GPUs.
func TestXIDOfALostGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Lose(3)
	r.hw.XID(3, 79)
	r.event()
	r.pass(time.Minute)
	must.Eq(t, map[string]string{
		r.hw.UUIDs()[3]: "the GPU has fallen off the bus; XID 79 (the GPU has fallen off the bus)",
	}, r.unhealthy())
}

func TestXIDOfAMIGInstance(t *testing.T) {
	r := newRig(t, "mig-a100", nil)
	r.hw.XIDOnInstance(0, 94, 9, 0)
	r.event()
	must.Eq(t, map[string]string{
		"MIG-f4000000-0000-5000-8000-000000000002": "XID 94 (contained memory error)",
	}, r.unhealthy())
	r.hw.XID(0, 79)
	r.event()
	must.MapLen(t, 7, r.unhealthy())
}

func TestFaultsInSamples(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, reason string }{
		"ECC":          {"ecc_uncorrected", "2", "memory errors that ECC could not correct"},
		"remap failed": {"remap_failed", "1", "bad memory rows could not be remapped"},
		"recovery":     {"recovery", "2", "the driver requests a reboot of the machine"},
		"needs reset":  {"error", "16", "the GPU needs a reset"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "hgx-h100", nil)
			r.hw.Set(4, tc.key, tc.value)
			r.pass(5 * time.Second)
			must.Eq(t, map[string]string{r.hw.UUIDs()[4]: tc.reason}, r.unhealthy())
		})
	}
}

// Memory that waits for a reset does not make a GPU unhealthy, because the driver keeps
// programs off it.
func TestPendingRemapIsNoReason(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Set(4, "remap_pending", "1")
	r.hw.Set(5, "retired_pending", "1")
	r.pass(time.Minute)
	must.MapEmpty(t, r.unhealthy())
}

func TestFabricFaults(t *testing.T) {
	for name, tc := range map[string]struct{ fabric, reason string }{
		"not ready": {"32766 2 0", "NVLink fabric: the GPU is still registering with the fabric manager"},
		"unhealthy": {"32766 3 0 19a", "NVLink fabric: the GPU's routes are unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "nvl72-tray", nil)
			r.hw.Set(0, "fabric", "c0ffee00112233445566778899aabbcc "+tc.fabric)
			r.pass(5 * time.Second)
			must.MapEmpty(t, r.unhealthy()) // it may be transient
			r.pass(10 * time.Second)
			must.Eq(t, map[string]string{r.hw.UUIDs()[0]: tc.reason}, r.unhealthy())
		})
	}
}

func TestOneFailingCallHidesNoOtherGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Set(5, "error", "999")
	r.pass(5 * time.Second)
	must.MapEmpty(t, r.unhealthy())
	r.pass(10 * time.Second)
	must.Eq(t, map[string]string{
		r.hw.UUIDs()[5]: "the GPU does not answer: internal driver error",
	}, r.unhealthy())
	must.Len(t, 8, r.view().Layout.Units)
}

func TestDriverGoesAndComesBack(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Unload()
	r.pass(5 * time.Second)
	must.MapEmpty(t, r.unhealthy()) // a reload is short
	r.pass(10 * time.Second)
	must.MapLen(t, 8, r.unhealthy())
	must.Eq(t, "NVML is not available: the NVIDIA driver is not loaded", r.unhealthy()[r.hw.UUIDs()[0]])
	must.False(t, r.published(func() { r.pass(time.Minute) }))

	r.hw.Load()
	r.pass(5 * time.Second)
	must.MapLen(t, 8, r.unhealthy())
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.unhealthy())

	// Events are received again.
	r.hw.XID(0, 95)
	r.event()
	must.MapLen(t, 1, r.unhealthy())
}

func TestNVMLThatIsNotThereAtFirst(t *testing.T) {
	r := newRig(t, "none", nil)
	must.SliceEmpty(t, r.view().Layout.Groups())
	r.hw = nvmltest.New(t, "one-t4")
	r.hw.Setenv() // points the loaded stub at the other machine
	must.True(t, r.published(func() { r.pass(5 * time.Second) }))
	must.Len(t, 1, r.view().Layout.Groups())
	must.MapEmpty(t, r.unhealthy())
}

func TestLibraryUpgradeEndsTheProcess(t *testing.T) {
	r := newRig(t, "one-t4", nil)
	stale, restarts := false, 0
	r.m.opts.Stale = func() bool { return stale }
	r.m.opts.Restart = func(string) { restarts++ }
	r.hw.Fail(int(nvml.ErrVersionMismatch))
	r.pass(5 * time.Second)
	r.pass(5 * time.Second)
	must.Eq(t, 0, restarts) // nothing new on disk: a restart would change nothing
	stale = true
	r.pass(5 * time.Second)
	must.Eq(t, 1, restarts)
}

func TestMIGInstancesComeAndGo(t *testing.T) {
	r := newRig(t, "mig-a100", nil)
	r.hw.Set(0, "nomig", "1")
	r.m.refresh(r.now)
	must.Len(t, 1, r.view().Layout.Groups()) // only the whole GPU is left
	r.hw.Set(0, "mig_mode", "0")
	r.m.refresh(r.now)
	must.Len(t, 2, r.view().Layout.Groups()[0].Members)
	must.MapEmpty(t, r.unhealthy())
}

// One second of statistics costs a known number of NVML calls, and all consumers share
// them.
func TestReadingsAreShared(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	must.True(t, r.m.stopListener()) // which makes calls at any time
	r.now = r.now.Add(time.Second)
	before := r.hw.Calls()
	r.m.observe(r.now, 900*time.Millisecond)
	fresh := r.hw.Calls() - before
	must.LessEq(t, 8*5, fresh, must.Sprint("calls for eight GPUs"))
	r.m.observe(r.now.Add(100*time.Millisecond), 900*time.Millisecond)
	must.Eq(t, fresh, r.hw.Calls()-before)
}

// The regular reading of the whole machine reads only values that can change.
func TestReadingTheMachineAgain(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	before := r.hw.Calls()
	r.m.refresh(r.now)
	// For each GPU: handle, UUID, four settings, MIG mode, fabric, 18 links and
	// their version, and a sample of everything; and for the machine its versions
	// and the number of GPUs.
	must.LessEq(t, 8*(8+19+14)+3, r.hw.Calls()-before)

	r.hw.Set(2, "power_limit", "350000")
	r.hw.Set(3, "nolinks", "17")
	r.m.refresh(r.now)
	units := r.view().Layout.Units
	must.Eq(t, 350, *units[2].GPU.PowerLimitW)
	must.Len(t, 17, units[3].GPU.Ports)
	must.Eq(t, []string{"8;2xNV18s,NV17s,5xNV18s,NV17s,4xNV18s,NV17s,4xNV18s,4xNV17s,6xNV18s"}, r.topologies())
	r.hw.Set(3, "nolinks", "18")
	r.m.refresh(r.now)
	must.Eq(t, []string{"8;28xNV18s"}, r.topologies())
}

// A GPU that was in MIG mode gets its links back.
func TestPairsAreReadWhenLinksChange(t *testing.T) {
	r := newRig(t, "two-boards-a100", nil)
	all := r.topologies()
	r.hw.Set(0, "mig_mode", "1")
	r.reopen()
	must.NotEq(t, all, r.topologies())
	r.hw.Set(0, "mig_mode", "0")
	r.m.refresh(r.now)
	must.Eq(t, all, r.topologies())
}

func TestRates(t *testing.T) {
	first := (*Reading)(nil).next(epoch, nvml.Sample{Time: epoch, NVLinkTx: ptr(uint64(1000))}, true)
	must.Nil(t, first.NVLinkTx)
	second := first.next(epoch, nvml.Sample{Time: epoch.Add(2 * time.Second), NVLinkTx: ptr(uint64(5000))}, false)
	must.Eq(t, 2000, *second.NVLinkTx)
	wrapped := second.next(epoch, nvml.Sample{Time: epoch.Add(3 * time.Second), NVLinkTx: ptr(uint64(10))}, false)
	must.Nil(t, wrapped.NVLinkTx)
}

func ptr[T any](v T) *T { return &v }

// After any sequence of faults, every GPU is offered once, in its previous group, and no
// missing GPU is healthy. When no fault is left, everything is as before.
func TestFaultsProperties(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = inventory.GroupByNVLink })
	r.m.opts.EventWait = 2 * time.Millisecond // each start of a listener waits for the one before
	r.restart()
	names := r.names()
	topologies := r.topologies()
	rapid.Check(t, func(rt *rapid.T) {
		gone, loaded := map[int]bool{}, true
		steps := map[string]func(gpu int){
			"lose":    func(gpu int) { r.hw.Lose(gpu); gone[gpu] = true },
			"unplug":  func(gpu int) { r.hw.Unplug(gpu); gone[gpu] = true },
			"return":  func(gpu int) { r.hw.Return(gpu); delete(gone, gpu) },
			"links":   func(gpu int) { r.hw.Set(gpu, "nolinks", strconv.Itoa(gpu%2*12)) },
			"unload":  func(int) { r.hw.Unload(); loaded = false },
			"load":    func(int) { r.hw.Load(); loaded = true },
			"xid":     func(gpu int) { r.hw.XID(gpu, 48) },
			"period":  func(int) { r.m.period(r.now) },
			"restart": func(int) { r.restart() },
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			step := rapid.SampledFrom(slices.Sorted(maps.Keys(steps))).Draw(rt, "step")
			steps[step](rapid.IntRange(0, 7).Draw(rt, "gpu"))
			r.pass(rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, time.Minute}).Draw(rt, "pass"))
			for id, name := range r.names() { // a monitor that starts while a GPU is gone does not know that GPU
				must.Eq(rt, names[id], name)
			}
			offered := map[string]bool{}
			for _, u := range r.view().Layout.Units {
				must.False(rt, offered[u.ID()], must.Sprintf("%s is offered twice", u.ID()))
				offered[u.ID()] = true
			}
		}
		for range 4 {
			steps["period"](0)
			r.settle()
		}
		unhealthy := r.unhealthy()
		for gpu, id := range r.hw.UUIDs() {
			if _, known := r.names()[id[len(id)-2:]]; known && (gone[gpu] || !loaded) {
				must.MapContainsKey(rt, unhealthy, id)
			}
		}

		steps["load"](0)
		for gpu := range 8 {
			steps["return"](gpu)
			r.hw.Set(gpu, "nolinks", "12")
		}
		steps["period"](0)
		for range 8 { // longer than an XID is held, and than the longest wait
			r.pass(3 * time.Minute)
		}
		must.MapEmpty(rt, r.unhealthy())
		must.Eq(rt, names, r.names())
		must.Eq(rt, topologies, r.topologies())
	})
}
