// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
)

func TestSample(t *testing.T) {
	m, r := open(t, "hgx-h100")
	m.Set(2, "util", "97")
	m.Set(2, "ecc_uncorrected", "3")
	m.Set(2, "nvlink_kibps", "1000000")
	m.Set(2, "recovery", "1")
	g := gpus(t, r)[2]

	before := m.Calls()
	s, err := g.Sample(false)
	must.NoError(t, err)
	must.Eq(t, 5, m.Calls()-before, must.Sprint("NVML calls for a reading"))
	must.Eq(t, 97, *s.GPUUtil)
	must.Eq(t, 72.31, *s.PowerW)
	must.Greater(t, 0, *s.NVLinkTx)
	must.Eq(t, nvml.Rest{}, s.Rest)

	s, err = g.Sample(true)
	must.NoError(t, err)
	must.Eq(t, 3, *s.ECCUncorrected)
	must.Eq(t, 40, *s.MemoryTemperatureC)
	must.False(t, *s.RemapPending)
	must.StrContains(t, s.Recovery, "reset")
	must.Eq(t, 700, *s.PowerLimitW)
	must.NotNil(t, s.Throttle)
	must.Eq(t, 1980, *s.CoreClockMHz)
}

// An unsupported value costs one call.
func TestSampleOfWhatIsNotThere(t *testing.T) {
	m, r := open(t, "one-t4") // no NVLink, no PCIe counters
	g := gpus(t, r)[0]
	for _, want := range []uint64{5, 4} {
		before := m.Calls()
		s, err := g.Sample(false)
		must.NoError(t, err)
		must.Nil(t, s.NVLinkTx)
		must.Eq(t, want, m.Calls()-before)
	}
}

// A 32-bit counter wraps between two readings, so the driver's own rate is used
// instead.
func TestSampleWithNarrowCounters(t *testing.T) {
	m, r := open(t, "hgx-h100")
	m.Set(0, "pcie_kibps", "2000")
	g := gpus(t, r)[0]
	s, err := g.Sample(true)
	must.NoError(t, err)
	must.NotNil(t, s.PCIeTx)
	must.Nil(t, s.PCIeTxRate)

	m.Set(0, "pcie_narrow", "1")
	s, err = g.Sample(true)
	must.NoError(t, err)
	must.Nil(t, s.PCIeTx)
	must.Eq(t, 2_000_000, *s.PCIeTxRate)
}
