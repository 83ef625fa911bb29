// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/e2e/nvmlstub"
)

func TestNoMessageWithoutAChange(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	must.False(t, r.told(func() { r.m.refresh(r.now) }))
	r.hw.Set(0, "temperature", "77")
	r.hw.Set(0, "power", "690000")
	must.False(t, r.told(func() { r.pass(5 * time.Second) }))
}

func TestLostGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Lose(2)
	must.True(t, r.told(func() { r.pass(5 * time.Second) }))
	must.Eq(t, map[string]string{r.hw.UUIDs()[2]: "the GPU has fallen off the bus"}, r.sick())
	must.Eq(t, "7", attribute(t, r.groups()[0], "healthy"))
	must.Len(t, 8, r.groups()[0].Devices)

	// It stays listed, with all that is known of it, after the machine was
	// read anew.
	topology := attribute(t, r.groups()[0], "topology")
	must.False(t, r.told(func() { r.m.refresh(r.now.Add(time.Second)) }))
	must.Eq(t, topology, attribute(t, r.groups()[0], "topology"))

	// Back, but not healthy before it has been well for a while.
	r.hw.Return(2)
	must.False(t, r.told(func() { r.pass(20 * time.Second); r.pass(20 * time.Second) }))
	must.True(t, r.told(func() { r.pass(20 * time.Second) }))
	must.MapEmpty(t, r.sick())
}

func TestGPUThatIsNotListedAnyMore(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Unplug(7)
	r.pass(5 * time.Second)
	must.Eq(t, map[string]string{r.hw.UUIDs()[7]: "NVML does not list the GPU any more"}, r.sick())
	r.hw.Return(7)
	r.pass(5 * time.Second)
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.sick())
}

func TestXID(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(1, 31) // a page fault of some program
	r.event()
	must.MapEmpty(t, r.sick())

	r.hw.XID(1, 48)
	must.True(t, r.told(r.event))
	must.Eq(t, map[string]string{r.hw.UUIDs()[1]: "XID 48 (double-bit ECC error)"}, r.sick())

	r.hw.DoubleBit(6)
	r.event()
	must.MapLen(t, 2, r.sick())

	r.pass(10 * time.Minute)
	must.MapLen(t, 2, r.sick())
	r.pass(time.Minute)
	must.MapEmpty(t, r.sick())
}

// After a reset nobody waits for xid_recovery.
func TestXIDEndsWithAReset(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.XID(1, 79)
	r.event()
	r.hw.Lose(1)
	r.pass(5 * time.Second)
	must.Eq(t, "the GPU has fallen off the bus; XID 79 (the GPU has fallen off the bus)", r.sick()[r.hw.UUIDs()[1]])
	r.hw.Return(1)
	r.reopen()
	r.pass(5 * time.Second)
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.sick())
}

// The driver's word that a GPU has fallen off the bus comes when the GPU cannot
// be asked any more: the others are as well as before.
func TestXIDOfALostGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Lose(3)
	r.hw.XID(3, 79)
	r.event()
	r.pass(time.Minute)
	must.Eq(t, map[string]string{
		r.hw.UUIDs()[3]: "the GPU has fallen off the bus; XID 79 (the GPU has fallen off the bus)",
	}, r.sick())
}

func TestXIDOfAMIGInstance(t *testing.T) {
	r := newRig(t, "mig-a100", nil)
	r.hw.XIDOnInstance(0, 94, 9, 0)
	r.event()
	must.Eq(t, map[string]string{
		"MIG-f4000000-0000-5000-8000-000000000002": "XID 94 (contained memory error)",
	}, r.sick())
	r.hw.XID(0, 79)
	r.event()
	must.MapLen(t, 7, r.sick())
}

func TestTroubleInReadings(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, reason string }{
		"ECC":          {"ecc_uncorrected", "2", "memory errors that ECC could not correct"},
		"remap failed": {"remap_failed", "1", "bad memory rows could not be remapped"},
		"recovery":     {"recovery", "2", "the driver asks for a reboot of the machine"},
		"needs reset":  {"error", "16", "the GPU needs a reset"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "hgx-h100", nil)
			r.hw.Set(4, tc.key, tc.value)
			r.pass(5 * time.Second)
			must.Eq(t, map[string]string{r.hw.UUIDs()[4]: tc.reason}, r.sick())
		})
	}
}

// Memory that waits for a reset is kept off by the driver meanwhile.
func TestPendingRemapIsNoReason(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Set(4, "remap_pending", "1")
	r.hw.Set(5, "retired_pending", "1")
	r.pass(time.Minute)
	must.MapEmpty(t, r.sick())
}

func TestFabricTrouble(t *testing.T) {
	for name, tc := range map[string]struct{ fabric, reason string }{
		"not ready": {"32766 2 0", "NVLink fabric: the GPU is still registering with the fabric manager"},
		"unhealthy": {"32766 3 0 19a", "NVLink fabric: the GPU's routes are unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "nvl72-tray", nil)
			r.hw.Set(0, "fabric", "c0ffee00112233445566778899aabbcc "+tc.fabric)
			r.pass(5 * time.Second)
			must.MapEmpty(t, r.sick()) // it may pass
			r.pass(10 * time.Second)
			must.Eq(t, map[string]string{r.hw.UUIDs()[0]: tc.reason}, r.sick())
		})
	}
}

func TestOneFailingCallHidesNoOtherGPU(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Set(5, "error", "999")
	r.pass(5 * time.Second)
	must.MapEmpty(t, r.sick())
	r.pass(10 * time.Second)
	must.Eq(t, map[string]string{
		r.hw.UUIDs()[5]: "the GPU does not answer: internal driver error",
	}, r.sick())
	must.Len(t, 8, r.groups()[0].Devices)
}

func TestDriverGoesAndComesBack(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	r.hw.Unload()
	r.pass(5 * time.Second)
	must.MapEmpty(t, r.sick()) // a reload is short
	r.pass(10 * time.Second)
	must.MapLen(t, 8, r.sick())
	must.Eq(t, "NVML is not available: the NVIDIA driver is not loaded", r.sick()[r.hw.UUIDs()[0]])
	must.Eq(t, "0", attribute(t, r.groups()[0], "healthy"))
	must.False(t, r.told(func() { r.pass(time.Minute) }))

	r.hw.Load()
	r.pass(5 * time.Second)
	must.MapLen(t, 8, r.sick())
	r.pass(30 * time.Second)
	must.MapEmpty(t, r.sick())

	// Events are heard again.
	r.hw.XID(0, 95)
	r.event()
	must.MapLen(t, 1, r.sick())
}

func TestNVMLThatIsNotThereAtFirst(t *testing.T) {
	r := newRig(t, "none", nil)
	must.SliceEmpty(t, r.groups())
	r.hw = nvmlstub.New(t, "one-t4")
	library(t, r.hw) // points the loaded stand-in at the other machine
	must.True(t, r.told(func() { r.pass(5 * time.Second) }))
	must.Len(t, 1, r.groups())
	must.MapEmpty(t, r.sick())
}

func TestLibraryUpgradeEndsTheProcess(t *testing.T) {
	r := newRig(t, "one-t4", nil)
	stale, restarts := false, 0
	r.m.host = hostHooks{
		stale:   func() bool { return stale },
		restart: func(string) { restarts++ },
	}
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
	must.Len(t, 1, r.groups()) // only the whole GPU is left
	r.hw.Set(0, "mig_mode", "0")
	r.m.refresh(r.now)
	must.Len(t, 2, r.groups()[0].Devices)
	must.MapEmpty(t, r.sick())
}

// What one second of Nomad's statistics costs in NVML calls, and that all who
// ask share it.
func TestReadingsAreShared(t *testing.T) {
	r := newRig(t, "hgx-h100", nil)
	must.True(t, r.m.deafen()) // whose calls come when they like
	r.now = r.now.Add(time.Second)
	before := r.hw.Calls()
	r.m.look(r.now, 900*time.Millisecond)
	fresh := r.hw.Calls() - before
	must.LessEq(t, 8*5, fresh, must.Sprint("calls for eight GPUs"))
	r.m.look(r.now.Add(100*time.Millisecond), 900*time.Millisecond)
	must.Eq(t, fresh, r.hw.Calls()-before)
}

// What the regular reading of the whole machine costs: what can change is read,
// and nothing else.
func TestReadingTheMachineAnew(t *testing.T) {
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
	g := r.groups()[0]
	must.Eq(t, "350 W", attribute(t, g, "power"))
	must.Eq(t, "17", attribute(t, g, "nvlink_links"))
	must.Eq(t, "8;2xNV18s,NV17s,5xNV18s,NV17s,4xNV18s,NV17s,4xNV18s,4xNV17s,6xNV18s", attribute(t, g, "topology"))
	r.hw.Set(3, "nolinks", "18")
	r.m.refresh(r.now)
	must.Eq(t, "8;28xNV18s", attribute(t, r.groups()[0], "topology"))
}

// A GPU that was in MIG mode gets its links back.
func TestPairsAreReadWhenLinksChange(t *testing.T) {
	r := newRig(t, "two-boards-a100", nil)
	all := attribute(t, r.groups()[0], "topology")
	r.hw.Set(0, "mig_mode", "1")
	r.reopen()
	must.NotEq(t, all, attribute(t, r.groups()[0], "topology"))
	r.hw.Set(0, "mig_mode", "0")
	r.m.refresh(r.now)
	must.Eq(t, all, attribute(t, r.groups()[0], "topology"))
}

func TestRates(t *testing.T) {
	first := (*reading)(nil).next(epoch, nvml.Sample{Time: epoch, NVLinkTx: ptr(uint64(1000))}, true)
	must.Nil(t, first.nvlinkTx)
	second := first.next(epoch, nvml.Sample{Time: epoch.Add(2 * time.Second), NVLinkTx: ptr(uint64(5000))}, false)
	must.Eq(t, 2000, *second.nvlinkTx)
	wrapped := second.next(epoch, nvml.Sample{Time: epoch.Add(3 * time.Second), NVLinkTx: ptr(uint64(10))}, false)
	must.Nil(t, wrapped.nvlinkTx)
}

func ptr[T any](v T) *T { return &v }

func TestManyStepsKeepEveryGPU(t *testing.T) {
	r := newRig(t, "two-boards-a100", func(c *Config) { c.GroupBy = GroupByNVLink })
	for i := range 40 {
		gpu := i * 5 % 8
		switch i % 4 {
		case 0:
			r.hw.Lose(gpu)
		case 1:
			r.hw.Return((gpu + 3) % 8)
		case 2:
			r.hw.Set(gpu, "temperature", strconv.Itoa(i))
		case 3:
			r.m.refresh(r.now)
		}
		r.pass(5 * time.Second)
		must.Len(t, 2, r.groups())
		for _, g := range r.groups() {
			must.Len(t, 4, g.Devices)
			must.Eq(t, "4;6xNV4", attribute(t, g, "topology"))
		}
	}
}
