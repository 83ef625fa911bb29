// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// notAvailable is nomad-device-nvidia's text for an unknown value.
const notAvailable = "N/A"

// stats converts readings to Nomad's statistics. For a GPU that could not be read
// it returns only the health, because Nomad keeps the last statistics of a GPU that
// is omitted.
func stats(v *monitor.View, now time.Time, readings map[string]*monitor.Reading) []*device.DeviceGroupStats {
	var all []*device.DeviceGroupStats
	for _, group := range v.Layout.Groups() {
		g := &device.DeviceGroupStats{
			Vendor: vendor, Type: deviceType, Name: group.Name,
			InstanceStats: map[string]*device.DeviceStats{},
		}
		for _, i := range group.Members {
			u := v.Layout.Units[i]
			r := readings[u.GPU.UUID]
			if r == nil {
				r = &monitor.Reading{Sample: nvml.Sample{Time: now}}
			}
			g.InstanceStats[u.ID()] = unitStats(u, r, v.Health[u.ID()])
		}
		all = append(all, g)
	}
	return all
}

// unitStats returns the statistics of one unit. The names of the first eleven are
// the same as nomad-device-nvidia's. A MIG instance has its own memory; power,
// temperature and so on are those of its GPU.
func unitStats(u inventory.Unit, r *monitor.Reading, c monitor.Condition) *device.DeviceStats {
	s := r.Sample
	memory := fraction("MiB", "UsedMemory / TotalMemory", s.MemoryUsedMiB, s.MemoryTotalMiB)
	if u.Instance != nil {
		var used *uint64
		if mib, ok := s.Instances[u.Instance.UUID]; ok {
			used = &mib
		}
		memory = fraction("MiB", "UsedMemory / TotalMemory", used, u.Instance.MemoryMiB)
	}
	state := "healthy"
	if !c.Healthy {
		state = c.Reason
	}
	return &device.DeviceStats{
		Summary:   memory,
		Timestamp: s.Time.Truncate(time.Millisecond),
		Stats: &structs.StatObject{Attributes: map[string]*structs.StatValue{
			"Power usage":         fraction("W", "Power usage of the GPU / its limit", whole(s.PowerW), whole(s.PowerLimitW)),
			"GPU utilization":     number("%", "Time in which a kernel was executing", s.GPUUtil),
			"Memory utilization":  number("%", "Time in which memory was read or written", s.MemoryUtil),
			"Encoder utilization": number("%", "Time in which the encoder was used", s.EncoderUtil),
			"Decoder utilization": number("%", "Time in which the decoder was used", s.DecoderUtil),
			"Temperature":         number("C", "Temperature of the GPU", s.TemperatureC),
			"Memory state":        memory,
			"BAR1 buffer state":   fraction("MiB", "UsedBAR1 / TotalBAR1", s.BAR1UsedMiB, s.BAR1TotalMiB),
			"ECC L1 errors":       number("#", "Corrected errors in the L1 cache", s.ECCL1),
			"ECC L2 errors":       number("#", "Corrected errors in the L2 cache", s.ECCL2),
			"ECC memory errors":   number("#", "Corrected errors in device memory", s.ECCMemory),

			"ECC uncorrected errors": number("#", "Errors since the driver was loaded that ECC could not correct", s.ECCUncorrected),
			"Memory temperature":     number("C", "Temperature of the memory", s.MemoryTemperatureC),
			"Core clock":             number("MHz", "Clock of the cores", s.CoreClockMHz),
			"Memory clock":           number("MHz", "Clock of the memory", s.MemoryClockMHz),
			"NVLink TX":              number("MB/s", "Data sent over all NVLinks", mega(r.NVLinkTx)),
			"NVLink RX":              number("MB/s", "Data received over all NVLinks", mega(r.NVLinkRx)),
			"PCIe TX":                number("MB/s", "Sent over PCIe", mega(r.PCIeTx)),
			"PCIe RX":                number("MB/s", "Received over PCIe", mega(r.PCIeRx)),
			"Throttle reasons":       text("Why clocks are lower than they could be", throttleText(s.Throttle)),
			"Health":                 text("Health of the GPU", &state),
		}},
	}
}

func throttleText(mask *uint64) *string {
	if mask == nil {
		return nil
	}
	var names []string
	for _, t := range nvml.ThrottleReasons() {
		if t.In(*mask) {
			names = append(names, t.Name)
		}
	}
	all := "none"
	if len(names) > 0 {
		all = strings.Join(names, ", ")
	}
	return &all
}

func number[N uint | uint64 | int64](unit, desc string, v *N) *structs.StatValue {
	s := &structs.StatValue{Unit: unit, Desc: desc}
	if v == nil {
		na := notAvailable
		s.StringVal = &na
		return s
	}
	n := int64(*v)
	s.IntNumeratorVal = &n
	return s
}

func fraction[N uint | uint64 | int64](unit, desc string, v, of *N) *structs.StatValue {
	if v == nil || of == nil {
		return number[N](unit, desc, nil)
	}
	s := number(unit, desc, v)
	n := int64(*of)
	s.IntDenominatorVal = &n
	return s
}

func text(desc string, v *string) *structs.StatValue {
	s := &structs.StatValue{Desc: desc, StringVal: v}
	if v == nil {
		na := notAvailable
		s.StringVal = &na
	}
	return s
}

// whole rounds to a whole number.
func whole(v *float64) *int64 {
	if v == nil {
		return nil
	}
	n := int64(*v + 0.5)
	return &n
}

// mega converts bytes per second to MB/s.
func mega(v *float64) *int64 {
	if v == nil {
		return nil
	}
	m := *v / 1e6
	return whole(&m)
}
