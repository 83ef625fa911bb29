// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/nvml"
)

const (
	// envVisible is what NVIDIA's container runtime and CUDA tools read. A task
	// with two device blocks has only the second block's in it: Nomad lets the
	// later one win.
	envVisible = "NVIDIA_VISIBLE_DEVICES"
	// envGPUs begins a key that each reservation has for itself. What follows
	// is a hash of its ids, so that two blocks of one task do not overwrite
	// each other's.
	envGPUs = "KOLO_GPUS_"
	// envCDI begins a key, with the same hash, that holds names of the Container
	// Device Interface.
	envCDI = "KOLO_CDI_"
	// cdiKind is what NVIDIA calls its GPUs in CDI.
	cdiKind = "nvidia.com/gpu"
)

// reserveWait is how long a reservation waits for the first look at the GPUs:
// after a restart of the plugin Nomad may be quicker.
const reserveWait = 30 * time.Second

// Reserve says how a task gets at devices that the scheduler gave to it.
func (d *Device) Reserve(ids []string) (*device.ContainerReservation, error) {
	if len(ids) == 0 {
		return &device.ContainerReservation{}, nil
	}
	m, err := d.started()
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(reserveWait)
	defer wait.Stop()
	select {
	case <-m.ready:
	case <-m.done:
	case <-wait.C:
	}
	v, _ := m.latest()
	if v == nil {
		return nil, errors.New("the GPUs have not been read yet")
	}
	units, err := v.reserve(ids)
	if err != nil {
		return nil, err
	}
	var names map[string]int
	if m.cfg.GroupBy == GroupByNVLink {
		names = v.layout.numbers()
	}
	if !m.places.take(units, names) {
		return nil, errors.New("cannot reserve: the NVLink islands have just changed, and with them the groups of these GPUs; the task must be placed anew")
	}
	return d.reservation(units, m.cfg.DeviceNodes), nil
}

// reserve finds the units. They come in the order of their PCI addresses, which
// is the order in which CUDA will number them.
func (v *view) reserve(ids []string) ([]unit, error) {
	var units []unit
	var errs []error
	for _, id := range ids {
		i := slices.IndexFunc(v.layout.units, func(u unit) bool { return u.id() == id })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("GPU %s is not on this machine", id))
		case !v.health[id].ok:
			errs = append(errs, fmt.Errorf("GPU %s is unhealthy: %s", id, v.health[id].reason))
		default:
			units = append(units, v.layout.units[i])
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("cannot reserve: %w", errors.Join(errs...))
	}
	slices.SortFunc(units, func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.card.facts.Bus, b.card.facts.Bus), cmp.Compare(a.id(), b.id()))
	})
	return units, nil
}

// reservation makes environment and device nodes.
func (d *Device) reservation(units []unit, nodes bool) *device.ContainerReservation {
	ids := values(units, unit.id)
	list, suffix := strings.Join(ids, ","), reservationKey(ids)
	r := &device.ContainerReservation{Envs: map[string]string{
		envVisible:       list,
		envGPUs + suffix: list,
	}}
	if d.hasCDI() {
		names := values(ids, func(id string) string { return cdiKind + "=" + id })
		r.Envs[envCDI+suffix] = strings.Join(names, ",")
	}
	if nodes {
		r.Devices = d.nodes(units)
	}
	return r
}

// reservationKey is eight hexadecimal digits of a hash of the ids, whatever
// their order.
func reservationKey(ids []string) string {
	sorted := slices.Sorted(slices.Values(ids))
	sum := sha256.Sum256([]byte(strings.Join(sorted, ",")))
	return hex.EncodeToString(sum[:4])
}

// common are the nodes that every user of a GPU needs.
var common = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

// nodes lists the files in /dev that are there for the units. Drivers that
// isolate tasks without NVIDIA's container runtime (exec) need them.
func (d *Device) nodes(units []unit) []*device.DeviceSpec {
	var names []string
	for _, u := range units {
		minor := u.card.facts.Minor
		if minor == nil {
			continue
		}
		names = append(names, fmt.Sprintf("nvidia%d", *minor))
		if u.instance == nil {
			continue
		}
		caps, err := nvml.Capabilities(d.opts.Root, *minor, *u.instance)
		if err != nil {
			d.log.Warn("the capability nodes of a MIG instance are not known", "error", err)
		}
		for _, n := range caps {
			names = append(names, fmt.Sprintf("nvidia-caps/nvidia-cap%d", n))
		}
	}
	names = append(names, common...)
	slices.Sort(names)
	var specs []*device.DeviceSpec
	for _, name := range slices.Compact(names) {
		path := filepath.Join("/dev", name)
		info, err := os.Stat(filepath.Join(d.opts.Root, path))
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			continue
		}
		specs = append(specs, &device.DeviceSpec{TaskPath: path, HostPath: path, CgroupPerms: "rwm"})
	}
	return specs
}

// hasCDI tells whether the machine has a CDI specification of its GPUs, as
// nvidia-ctk cdi generate writes it.
func (d *Device) hasCDI() bool {
	for _, dir := range []string{"/etc/cdi", "/var/run/cdi"} {
		files, err := filepath.Glob(filepath.Join(d.opts.Root, dir, "*"))
		if err != nil {
			continue // the pattern is constant
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), cdiKind) {
				return true
			}
		}
	}
	return false
}
