// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kolo-nomad/kolo/device/topology"
)

// realGPU is a GPU of [Real].
type realGPU struct {
	r *Real
	d nvml.Device
	// instances are the MIG instances that Facts last read.
	instances []realInstance
	// unsupported are the fields that the GPU does not support.
	unsupported map[uint32]bool
}

type realInstance struct {
	uuid string
	d    nvml.Device
}

var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER:    "kepler",
	nvml.DEVICE_ARCH_MAXWELL:   "maxwell",
	nvml.DEVICE_ARCH_PASCAL:    "pascal",
	nvml.DEVICE_ARCH_VOLTA:     "volta",
	nvml.DEVICE_ARCH_TURING:    "turing",
	nvml.DEVICE_ARCH_AMPERE:    "ampere",
	nvml.DEVICE_ARCH_ADA:       "ada",
	nvml.DEVICE_ARCH_HOPPER:    "hopper",
	nvml.DEVICE_ARCH_BLACKWELL: "blackwell",
}

// cached holds the values that do not change until NVML is opened again.
type cached struct {
	facts Facts
	// ports are the NVLinks by number, as long as they are up.
	ports map[int]topology.Port
}

// Facts reads the rarely changing facts. Facts that never change are read only
// once.
func (g *realGPU) Facts() (Facts, error) {
	uuid, err := get(g, "nvmlDeviceGetUUID", g.d.GetUUID)
	if err != nil {
		return Facts{}, err
	}
	known := g.r.cached(uuid)
	if known == nil {
		known = &cached{facts: Facts{UUID: uuid, NUMA: -1}, ports: map[int]topology.Port{}}
		if err := g.describe(&known.facts); err != nil {
			return known.facts, fmt.Errorf("%s: %w", uuid, err)
		}
		g.r.cache(known)
	}
	f := known.facts
	g.settings(&f)
	if err := g.links(&f, known.ports); err != nil {
		return f, err
	}
	f.Fabric = g.fabric()
	if err := g.mig(&f); err != nil {
		return f, err
	}
	return f, nil
}

// describe reads the facts that cannot change. Name and address are required; a GPU
// may lack the others.
func (g *realGPU) describe(f *Facts) error {
	var err error
	if f.Name, err = get(g, "nvmlDeviceGetName", g.d.GetName); err != nil {
		return err
	}
	pci, err := get(g, "nvmlDeviceGetPciInfo_v3", g.d.GetPciInfo)
	if err != nil {
		return err
	}
	f.Bus = busID(text(pci.BusId[:]))
	f.NUMA = g.r.host.numa(f.Bus)
	f.Switch, f.Root = g.r.host.pcie(f.Bus)
	if f.NUMA < 0 {
		f.NUMA = g.numa()
	}
	f.Minor = ptr(get(g, "nvmlDeviceGetMinorNumber", g.d.GetMinorNumber))
	if m, err := get(g, "nvmlDeviceGetMemoryInfo", g.d.GetMemoryInfo); err == nil {
		f.MemoryMiB = new(m.Total >> 20)
	}
	if b, err := get(g, "nvmlDeviceGetBAR1MemoryInfo", g.d.GetBAR1MemoryInfo); err == nil {
		f.BAR1MiB = new(b.Bar1Total >> 20)
	}
	clock := func(kind nvml.ClockType) *uint {
		mhz, err := get(g, "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) { return g.d.GetMaxClockInfo(kind) })
		if err != nil {
			return nil
		}
		return new(uint(mhz))
	}
	f.CoreClockMHz, f.MemoryClockMHz = clock(nvml.CLOCK_GRAPHICS), clock(nvml.CLOCK_MEM)
	f.PCIeGen = getOr(g, "nvmlDeviceGetMaxPcieLinkGeneration", g.d.GetMaxPcieLinkGeneration, 0)
	f.PCIeWidth = getOr(g, "nvmlDeviceGetMaxPcieLinkWidth", g.d.GetMaxPcieLinkWidth, 0)
	f.Architecture = architectures[getOr(g, "nvmlDeviceGetArchitecture", g.d.GetArchitecture, 0)]
	f.Compute = getOr(g, "nvmlDeviceGetCudaComputeCapability", func() (float64, nvml.Return) {
		major, minor, ret := g.d.GetCudaComputeCapability()
		return decimal(major, minor), ret
	}, 0)
	return nil
}

// settings reads the settings that an operator can change.
func (g *realGPU) settings(f *Facts) {
	if mw, err := get(g, "nvmlDeviceGetEnforcedPowerLimit", g.d.GetEnforcedPowerLimit); err == nil {
		f.PowerLimitW = new(uint(mw) / 1000)
	}
	f.Display = enabled(get(g, "nvmlDeviceGetDisplayMode", g.d.GetDisplayMode))
	f.Persistence = enabled(get(g, "nvmlDeviceGetPersistenceMode", g.d.GetPersistenceMode))
	f.ECC = enabled(get(g, "nvmlDeviceGetEccMode", func() (nvml.EnableState, nvml.Return) {
		current, _, ret := g.d.GetEccMode()
		return current, ret
	}))
}

// maxNodes bounds the NUMA nodes that are queried.
const maxNodes = 64

// numa returns the one NUMA node whose memory is nearest, or -1 if there are
// several. It is for machines on which the kernel reports none. (NVML's NumaNodeId
// is something else: the node that a GPU's own memory forms on Grace.)
func (g *realGPU) numa() int {
	words, err := get(g, "nvmlDeviceGetMemoryAffinity", func() ([]uint, nvml.Return) {
		return g.d.GetMemoryAffinity(maxNodes, nvml.AFFINITY_SCOPE_NODE)
	})
	if err != nil {
		return -1
	}
	node := -1
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			if node >= 0 {
				return -1
			}
			node = i*bits.UintSize + bits.TrailingZeros(word)
		}
	}
	return node
}

// mig reads whether MIG is on, and the instances.
func (g *realGPU) mig(f *Facts) error {
	mode, err := get(g, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, _, ret := g.d.GetMigMode()
		return current, ret
	})
	if err != nil || mode != nvml.DEVICE_MIG_ENABLE {
		if broken(err) {
			return fmt.Errorf("%s: %w", f.UUID, err)
		}
		g.instances = nil
		return nil
	}
	f.MIG = true
	slots, err := get(g, "nvmlDeviceGetMaxMigDeviceCount", g.d.GetMaxMigDeviceCount)
	if err != nil {
		return fmt.Errorf("%s: %w", f.UUID, err)
	}
	g.instances = nil
	for i := range slots {
		d, err := get(g, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
			return g.d.GetMigDeviceHandleByIndex(i)
		})
		if err != nil {
			if broken(err) {
				return fmt.Errorf("%s: MIG instance %d: %w", f.UUID, i, err)
			}
			continue // an empty slot
		}
		in, err := g.instance(d)
		if err != nil {
			return fmt.Errorf("%s: MIG instance %d: %w", f.UUID, i, err)
		}
		f.Instances = append(f.Instances, in)
		g.instances = append(g.instances, realInstance{uuid: in.UUID, d: d})
	}
	return nil
}

func (g *realGPU) instance(d nvml.Device) (Instance, error) {
	in := Instance{GI: -1, CI: -1}
	var err error
	if in.UUID, err = get(g, "nvmlDeviceGetUUID", d.GetUUID); err != nil {
		return in, err
	}
	if in.Name, err = get(g, "nvmlDeviceGetName", d.GetName); err != nil {
		return in, err
	}
	// "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	if _, profile, ok := strings.Cut(in.Name, " MIG "); ok {
		in.Profile = profile
	}
	if m, err := get(g, "nvmlDeviceGetMemoryInfo", d.GetMemoryInfo); err == nil {
		in.MemoryMiB = new(m.Total >> 20)
	}
	in.GI = getOr(g, "nvmlDeviceGetGpuInstanceId", d.GetGpuInstanceId, -1)
	in.CI = getOr(g, "nvmlDeviceGetComputeInstanceId", d.GetComputeInstanceId, -1)
	return in, nil
}

// fabricStates are the states of a GPU before it has registered with a fabric.
var fabricStates = map[uint8]string{
	nvml.GPU_FABRIC_STATE_NOT_STARTED: "the GPU has not begun to register with the fabric manager",
	nvml.GPU_FABRIC_STATE_IN_PROGRESS: "the GPU is still registering with the fabric manager",
}

// fabricFaults are the parts of the health mask (NVML_GPU_FABRIC_HEALTH_MASK_* in
// nvml.h) that prevent programs from using the fabric. In each, 1 is yes, 2 is no,
// and 0 is unknown. Reduced bandwidth does not prevent the use.
var fabricFaults = []struct {
	shift int
	text  string
}{
	{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, "the GPU's routes are unhealthy"},
	{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, "the GPU's routes are being recovered"},
	{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, "the GPU recovers from an access that timed out"},
}

// fabricMistakes are the values of the mask's configuration part.
var fabricMistakes = map[uint32]string{
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_SYSGUID:    "the GPU has the system GUID of another fabric",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_CHASSIS_SN: "the GPU has the serial number of another chassis",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NO_PARTITION:         "the GPU is in no partition",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INSUFFICIENT_NVLINKS: "the GPU has too few NVLinks",
	// Drivers from 580 on; go-nvml has no names for them yet.
	6: "the GPU's firmware does not go with the fabric's",
	7: "the GPU is in a place where the fabric does not expect it",
}

// fabricFault returns the problem of the fabric of a registered GPU, if any.
func fabricFault(mask uint32) string {
	var faults []string
	for _, f := range fabricFaults {
		if mask>>f.shift&3 == 1 {
			faults = append(faults, f.text)
		}
	}
	mistake := mask >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
	if mistake > nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE {
		text, known := fabricMistakes[mistake]
		if !known {
			text = fmt.Sprintf("the GPU is configured wrongly (NVML's code %d)", mistake)
		}
		faults = append(faults, text)
	}
	return strings.Join(faults, ", ")
}

// fabricInfo uses the call that includes the fabric's health. If the driver lacks
// it (before 550), it uses the older call.
func (g *realGPU) fabricInfo() (nvml.GpuFabricInfo_v2, error) {
	info, err := get(g, "nvmlDeviceGetGpuFabricInfoV", g.d.GetGpuFabricInfoV().V2)
	if !errors.Is(err, ErrFunctionNotFound) {
		return info, err
	}
	old, err := get(g, "nvmlDeviceGetGpuFabricInfo", g.d.GetGpuFabricInfo)
	return nvml.GpuFabricInfo_v2{ClusterUuid: old.ClusterUuid, Status: old.Status, CliqueId: old.CliqueId, State: old.State}, err
}

func (g *realGPU) fabric() *Fabric {
	info, err := g.fabricInfo()
	if err != nil || info.State == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		return nil
	}
	f := &Fabric{Clique: info.CliqueId, Problem: fabricStates[info.State]}
	if info.State == nvml.GPU_FABRIC_STATE_COMPLETED {
		if info.Status == uint32(nvml.SUCCESS) {
			f.Ready, f.Problem = true, fabricFault(info.HealthMask)
		} else {
			f.Problem = fmt.Sprintf("registering with the fabric manager failed: %v", Code(info.Status))
		}
	}
	if id := info.ClusterUuid; id != [16]uint8{} {
		f.Cluster = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	return f
}
