// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/hostdev"
	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
)

const (
	// envVisible is the variable that NVIDIA's container runtime and CUDA tools read. A task with
	// two device blocks gets only that of the second block, because in Nomad the later one wins.
	envVisible = "NVIDIA_VISIBLE_DEVICES"
	// envGPUs is the prefix of a variable that each reservation has for itself. The rest of the
	// name is a hash of the reservation's IDs, so that two blocks of one task do not overwrite each
	// other's variable.
	envGPUs = "KOLO_GPUS_"
	// envNumbers is the prefix of a variable with NVML's indexes of these GPUs, in the same order.
	envNumbers = "KOLO_GPU_NUMBERS_"
	// envCDI is the prefix of variables with names of the Container Device Interface. The one with
	// the same hash has all names of a reservation. Those with a number from 0 have one name each,
	// because podman takes them as a list. If there are two device blocks, Nomad keeps the numbers
	// of the later one.
	envCDI = "KOLO_CDI_"
)

// reserveWait is how long a reservation waits for the first view. After a restart of the plugin
// Nomad may reserve before there is one.
const reserveWait = 30 * time.Second

// Reserve returns the environment and device nodes for a task that the scheduler gave these
// devices.
func (d *Device) Reserve(ids []string) (*device.ContainerReservation, error) {
	if len(ids) == 0 {
		return &device.ContainerReservation{}, nil
	}
	m, cfg, err := d.started()
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(reserveWait)
	defer wait.Stop()
	select {
	case <-m.Ready():
	case <-m.Done():
	case <-wait.C:
	}
	v, _ := m.Latest()
	if v == nil {
		return nil, errors.New("cannot reserve: the GPUs have not been read yet")
	}
	units, err := find(v, ids)
	if err != nil {
		return nil, fmt.Errorf("cannot reserve: %w", err)
	}
	if !d.stableIDs.Reserve(v.Layout, units) {
		return nil, errors.New("cannot reserve: the NVLink islands have just changed, and with them the groups of these GPUs; the task must be placed again")
	}
	return d.reservation(units, cfg.DeviceNodes), nil
}

// find returns the units with these IDs, all of which must be healthy. Units close to each other
// are adjacent (Layout.Compare). CUDA numbers them in this order, and processes select theirs by
// local rank, so neighbours in a ring are neighbours in the machine.
func find(v *monitor.View, ids []string) ([]inventory.Unit, error) {
	l := &v.Layout
	var found []int
	var errs []error
	for _, id := range ids {
		i := slices.IndexFunc(l.Units, func(u inventory.Unit) bool { return u.ID() == id })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("GPU %s is not on this machine", id))
		case !v.Health[id].Healthy:
			errs = append(errs, fmt.Errorf("GPU %s is unhealthy: %s", id, v.Health[id].Reason))
		default:
			found = append(found, i)
		}
	}
	slices.SortFunc(found, l.Compare)
	return values(found, func(i int) inventory.Unit { return l.Units[i] }), errors.Join(errs...)
}

// reservation converts units to environment and device nodes.
func (d *Device) reservation(units []inventory.Unit, nodes bool) *device.ContainerReservation {
	ids := values(units, inventory.Unit.ID)
	list, suffix := strings.Join(ids, ","), reservationKey(ids)
	numbers := values(units, func(u inventory.Unit) string { return strconv.Itoa(u.Number) })
	r := &device.ContainerReservation{Envs: map[string]string{
		envVisible:          list,
		envGPUs + suffix:    list,
		envNumbers + suffix: strings.Join(numbers, ","),
	}}
	if spec := hostdev.ReadCDI(d.opts.Root); len(spec) > 0 {
		names := values(ids, func(id string) string { return hostdev.CDIKind + "=" + id })
		r.Envs[envCDI+suffix] = strings.Join(names, ",")
		for i, name := range names {
			r.Envs[envCDI+strconv.Itoa(i)] = name
		}
		for _, id := range ids {
			if !spec.Names(id) {
				d.log.Warn("the CDI specification does not name a GPU that is reserved; see nomad-device-nvtopo check", "gpu", id)
			}
		}
	}
	if !nodes {
		return r
	}
	paths, err := hostdev.Nodes(d.opts.Root, units)
	if err != nil {
		d.log.Warn("the capability nodes of a MIG instance are unknown", "error", err)
	}
	for _, path := range paths {
		r.Devices = append(r.Devices, &device.DeviceSpec{TaskPath: path, HostPath: path, CgroupPerms: "rwm"})
	}
	return r
}

// reservationKey returns eight hexadecimal digits of a hash of the IDs, which does not depend on
// their order.
func reservationKey(ids []string) string {
	sorted := slices.Sorted(slices.Values(ids))
	sum := sha256.Sum256([]byte(strings.Join(sorted, ",")))
	return hex.EncodeToString(sum[:4])
}
