// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
)

// groups converts a view to Nomad's device groups. The same view gives the same
// groups, in the same order.
func groups(v *monitor.View) []*device.DeviceGroup {
	all := []*device.DeviceGroup{}
	for _, g := range v.Layout.Groups() {
		all = append(all, group(v, g))
	}
	return all
}

func group(v *monitor.View, g inventory.Group) *device.DeviceGroup {
	translated := &device.DeviceGroup{Vendor: vendor, Type: deviceType, Name: g.Name}
	healthy := 0
	for _, i := range g.Members {
		u := v.Layout.Units[i]
		c := v.Health[u.ID()]
		if c.Healthy {
			healthy++
		}
		translated.Devices = append(translated.Devices, &device.Device{
			ID:         u.ID(),
			Healthy:    c.Healthy,
			HealthDesc: c.Reason,
			HwLocality: &device.DeviceLocality{PciBusID: u.GPU.Bus},
		})
	}
	translated.Attributes = attributes(v, g.Members, healthy)
	return translated
}
