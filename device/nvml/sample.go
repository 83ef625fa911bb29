// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Sample reads the frequently changing values. One NVML call reads all counters,
// because they are field values. So five calls are enough for the sample that is
// taken every second. Values that are slow to read or rarely change are in Rest.
func (g *realGPU) Sample(all bool) (Sample, error) {
	s := Sample{Time: time.Now()}
	mem, err := get(g, "nvmlDeviceGetMemoryInfo", g.d.GetMemoryInfo)
	switch {
	case err == nil:
		s.MemoryUsedMiB, s.MemoryTotalMiB = new(mem.Used>>20), new(mem.Total>>20)
	case !Unsupported(err):
		// Every working GPU answers this.
		return s, err
	}
	if err := g.readFields(&s, counters); err != nil {
		return s, err
	}
	if u, err := get(g, "nvmlDeviceGetUtilizationRates", g.d.GetUtilizationRates); err == nil {
		s.GPUUtil, s.MemoryUtil = new(uint(u.Gpu)), new(uint(u.Memory))
	} else if broken(err) {
		return s, err
	}
	if mw, err := get(g, "nvmlDeviceGetPowerUsage", g.d.GetPowerUsage); err == nil {
		s.PowerW = new(float64(mw) / 1000)
	} else if broken(err) {
		return s, err
	}
	temp, err := get(g, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return g.d.GetTemperature(nvml.TEMPERATURE_GPU)
	})
	if err == nil {
		s.TemperatureC = new(uint(temp))
	} else if broken(err) {
		return s, err
	}
	if all {
		if err := g.readFields(&s, states); err != nil {
			return s, err
		}
		g.readRest(&s)
	}
	return s, nil
}

// recoveries are the actions that the driver can request.
var recoveries = map[uint64]string{
	uint64(nvml.GPU_RECOVERY_ACTION_GPU_RESET):       "the driver requests a GPU reset",
	uint64(nvml.GPU_RECOVERY_ACTION_NODE_REBOOT):     "the driver requests a reboot of the machine",
	uint64(nvml.GPU_RECOVERY_ACTION_DRAIN_P2P):       "the driver requests an end of peer traffic",
	uint64(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET): "the driver requests to drain and reset the GPU",
}

// counters are in each sample, states only in the rest. They are read separately
// because a call takes as long as its slowest fields together.
var (
	counters = []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: math.MaxUint32},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: math.MaxUint32},
		{FieldId: nvml.FI_DEV_PCIE_COUNT_TX_BYTES},
		{FieldId: nvml.FI_DEV_PCIE_COUNT_RX_BYTES},
	}
	states = []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_ECC_SBE_VOL_TOTAL},
		{FieldId: nvml.FI_DEV_ECC_DBE_VOL_TOTAL},
		{FieldId: nvml.FI_DEV_ECC_SBE_VOL_L1},
		{FieldId: nvml.FI_DEV_ECC_SBE_VOL_L2},
		{FieldId: nvml.FI_DEV_ECC_SBE_VOL_DEV},
		{FieldId: nvml.FI_DEV_RETIRED_PENDING},
		{FieldId: nvml.FI_DEV_REMAPPED_PENDING},
		{FieldId: nvml.FI_DEV_REMAPPED_FAILURE},
		{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION},
		{FieldId: nvml.FI_DEV_MEMORY_TEMP},
	}
)

// readFields reads the fields that the GPU supports. It does not read an
// unsupported field again with this handle, because even the refusal takes time.
func (g *realGPU) readFields(s *Sample, fields []nvml.FieldValue) error {
	values := slices.DeleteFunc(slices.Clone(fields), func(f nvml.FieldValue) bool {
		return g.unsupported[f.FieldId]
	})
	if len(values) == 0 {
		return nil
	}
	if err := g.fields(values); err != nil {
		if broken(err) {
			return err
		}
		return nil
	}
	for _, f := range values {
		v, ok := number(f)
		if !ok {
			if nvml.Return(f.NvmlReturn) == nvml.ERROR_NOT_SUPPORTED {
				g.unsupported[f.FieldId] = true
			}
			continue
		}
		switch f.FieldId {
		case nvml.FI_DEV_ECC_SBE_VOL_TOTAL:
			s.ECCCorrected = new(v)
		case nvml.FI_DEV_ECC_DBE_VOL_TOTAL:
			s.ECCUncorrected = new(v)
		case nvml.FI_DEV_ECC_SBE_VOL_L1:
			s.ECCL1 = new(v)
		case nvml.FI_DEV_ECC_SBE_VOL_L2:
			s.ECCL2 = new(v)
		case nvml.FI_DEV_ECC_SBE_VOL_DEV:
			s.ECCMemory = new(v)
		case nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX: // KiB
			s.NVLinkTx = new(v << 10)
		case nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
			s.NVLinkRx = new(v << 10)
		case nvml.FI_DEV_PCIE_COUNT_TX_BYTES:
			s.PCIeTx = wide(f, v)
		case nvml.FI_DEV_PCIE_COUNT_RX_BYTES:
			s.PCIeRx = wide(f, v)
		case nvml.FI_DEV_RETIRED_PENDING:
			s.RetiredPending = new(v != 0)
		case nvml.FI_DEV_REMAPPED_PENDING:
			s.RemapPending = new(v != 0)
		case nvml.FI_DEV_REMAPPED_FAILURE:
			s.RemapFailed = new(v != 0)
		case nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:
			s.Recovery = recoveries[v]
		case nvml.FI_DEV_MEMORY_TEMP:
			s.MemoryTemperatureC = new(uint(v))
		}
	}
	return nil
}

// wide drops a 32-bit counter, because at the speed of PCIe it wraps several times
// between two samples.
func wide(f nvml.FieldValue, v uint64) *uint64 {
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT, nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return nil
	default:
		return &v
	}
}

func (g *realGPU) readRest(s *Sample) {
	if mw, err := get(g, "nvmlDeviceGetEnforcedPowerLimit", g.d.GetEnforcedPowerLimit); err == nil {
		s.PowerLimitW = new(float64(mw) / 1000)
	}
	if b, err := get(g, "nvmlDeviceGetBAR1MemoryInfo", g.d.GetBAR1MemoryInfo); err == nil {
		s.BAR1UsedMiB, s.BAR1TotalMiB = new(b.Bar1Used>>20), new(b.Bar1Total>>20)
	}
	percent := func(symbol string, f func() (uint32, uint32, nvml.Return)) *uint {
		v, err := get(g, symbol, func() (uint, nvml.Return) {
			util, _, ret := f()
			return uint(util), ret
		})
		return ptr(v, err)
	}
	s.EncoderUtil = percent("nvmlDeviceGetEncoderUtilization", g.d.GetEncoderUtilization)
	s.DecoderUtil = percent("nvmlDeviceGetDecoderUtilization", g.d.GetDecoderUtilization)
	clock := func(kind nvml.ClockType) *uint {
		return ptr(get(g, "nvmlDeviceGetClockInfo", func() (uint, nvml.Return) {
			mhz, ret := g.d.GetClockInfo(kind)
			return uint(mhz), ret
		}))
	}
	s.CoreClockMHz, s.MemoryClockMHz = clock(nvml.CLOCK_GRAPHICS), clock(nvml.CLOCK_MEM)
	s.Throttle = ptr(get(g, "nvmlDeviceGetCurrentClocksThrottleReasons", g.d.GetCurrentClocksThrottleReasons))
	if s.PCIeTx == nil {
		// This call measures for 20 ms.
		throughput := func(counter nvml.PcieUtilCounter) *float64 {
			return ptr(get(g, "nvmlDeviceGetPcieThroughput", func() (float64, nvml.Return) {
				kbps, ret := g.d.GetPcieThroughput(counter)
				return float64(kbps) * 1000, ret
			}))
		}
		s.PCIeTxRate, s.PCIeRxRate = throughput(nvml.PCIE_UTIL_TX_BYTES), throughput(nvml.PCIE_UTIL_RX_BYTES)
	}
	s.Fabric = g.fabric()
	for _, in := range g.instances {
		m, err := get(g, "nvmlDeviceGetMemoryInfo", in.d.GetMemoryInfo)
		if err != nil {
			continue
		}
		if s.Instances == nil {
			s.Instances = map[string]uint64{}
		}
		s.Instances[in.uuid] = m.Used >> 20
	}
}
