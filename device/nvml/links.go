// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"encoding/binary"
	"errors"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kolo-nomad/kolo/device/topology"
)

// nvlinkVersions maps NVML's enumeration.
var nvlinkVersions = map[uint32]float64{
	uint32(nvml.NVLINK_VERSION_1_0): 1.0,
	uint32(nvml.NVLINK_VERSION_2_0): 2.0,
	uint32(nvml.NVLINK_VERSION_2_2): 2.2,
	uint32(nvml.NVLINK_VERSION_3_0): 3.0,
	uint32(nvml.NVLINK_VERSION_3_1): 3.1,
	uint32(nvml.NVLINK_VERSION_4_0): 4.0,
	uint32(nvml.NVLINK_VERSION_5_0): 5.0,
}

// links finds the NVLinks that are up and their other ends, which do not change
// while a link is up. A link that cannot be read stays as it was, so that one
// failed call does not change the islands.
func (g *realGPU) links(f *Facts, known map[int]topology.Port) error {
	for i := range nvml.NVLINK_MAX_LINKS {
		state, err := get(g, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) {
			return g.d.GetNvLinkState(i)
		})
		port, cached := known[i]
		switch {
		case Unsupported(err), errors.Is(err, ErrInvalidArgument):
			return nil // no NVLink at all, or fewer than the possible maximum
		case Unavailable(err), errors.Is(err, ErrGPULost), errors.Is(err, ErrResetRequired):
			return err
		case err != nil && cached:
			f.Ports = append(f.Ports, port)
			continue
		case err != nil:
			continue
		case state != nvml.FEATURE_ENABLED:
			delete(known, i)
			continue
		}
		if f.NVLinkVersion == 0 {
			f.NVLinkVersion = nvlinkVersions[getOr(g, "nvmlDeviceGetNvLinkVersion",
				func() (uint32, nvml.Return) { return g.d.GetNvLinkVersion(i) }, 0)]
		}
		if !cached {
			if port, err = g.port(i, f.Ports); err == nil {
				known[i] = port
			}
		}
		f.Ports = append(f.Ports, port)
	}
	return nil
}

// port returns the other end of a link. With an error, it returns as much as could
// be read.
func (g *realGPU) port(link int, before []topology.Port) (topology.Port, error) {
	port := topology.Port{MBps: g.rate(link, before)}
	kind, errKind := get(g, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) {
		return g.d.GetNvLinkRemoteDeviceType(link)
	})
	if errKind == nil && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
		port.Switch = true
		return port, nil
	}
	pci, errPCI := get(g, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func() (nvml.PciInfo, nvml.Return) {
		return g.d.GetNvLinkRemotePciInfo(link)
	})
	if errPCI == nil {
		port.Remote = busID(text(pci.BusId[:]))
	}
	for _, err := range []error{errKind, errPCI} {
		if err != nil && !Unsupported(err) {
			return port, err
		}
	}
	return port, nil
}

// rate returns the MB/s of a link. All links of a GPU have the same rate, so it is
// read once.
func (g *realGPU) rate(link int, before []topology.Port) int {
	if len(before) > 0 {
		return before[0].MBps
	}
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON},
		{FieldId: nvml.FI_DEV_NVLINK_GET_SPEED, ScopeId: uint32(link)},
	}
	if g.fields(fields) != nil {
		return 0
	}
	for _, f := range fields {
		if v, ok := number(f); ok && v > 0 {
			return int(v)
		}
	}
	return 0
}

// fields reads several values in one call. Each has a status of its own.
func (g *realGPU) fields(values []nvml.FieldValue) error {
	return g.r.do("nvmlDeviceGetFieldValues", func() nvml.Return { return g.d.GetFieldValues(values) })
}

// number reads a field that holds a whole number.
func number(f nvml.FieldValue) (uint64, bool) {
	if nvml.Return(f.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(f.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(binary.NativeEndian.Uint16(f.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(f.Value[:]), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		v := int32(binary.NativeEndian.Uint32(f.Value[:]))
		return uint64(max(v, 0)), v >= 0
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		v := int64(binary.NativeEndian.Uint64(f.Value[:]))
		return uint64(max(v, 0)), v >= 0
	default:
		return 0, false
	}
}
