// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// host is a stub machine that a test reads without a monitor.
type host struct {
	t       *testing.T
	hw      *nvmltest.Machine
	lib     nvml.Library
	by      inventory.GroupBy
	ids     *inventory.StableIDs
	ignored []string
}

func newHost(t *testing.T, machine string, by inventory.GroupBy, ignored ...string) *host {
	t.Helper()
	hw := nvmltest.New(t, machine)
	return &host{t: t, hw: hw, lib: library(hw), by: by, ids: inventory.ReadStableIDs(hw.Root()), ignored: ignored}
}

// library returns the stub, loaded into this process.
func library(hw *nvmltest.Machine) *nvml.Real {
	hw.Setenv()
	return nvml.New(nvml.Options{Library: hw.Library(), Root: hw.Root()})
}

// view reads the machine, on which every unit is healthy.
func (h *host) view() *monitor.View {
	h.t.Helper()
	must.NoError(h.t, h.lib.Open())
	defer h.lib.Close()
	inv, err := inventory.Read(h.lib, inventory.Inventory{}, h.ignored)
	must.NoError(h.t, err)
	v := &monitor.View{
		Driver: inv.Driver, Layout: inventory.NewLayout(&inv, h.by, h.ids), Health: map[string]monitor.Condition{},
	}
	for _, u := range v.Layout.Units {
		v.Health[u.ID()] = monitor.Condition{Healthy: true}
	}
	return v
}

func (h *host) groups() []*device.DeviceGroup {
	h.t.Helper()
	return groups(h.view())
}

// attribute returns a value as Nomad's command line would show it.
func attribute(t *testing.T, g *device.DeviceGroup, name string) string {
	t.Helper()
	a := g.Attributes[name]
	if a == nil {
		return ""
	}
	must.NoError(t, a.Validate())
	return show(a)
}

func show(a *structs.Attribute) string {
	switch {
	case a.String != nil:
		return *a.String
	case a.Bool != nil:
		return strconv.FormatBool(*a.Bool)
	case a.Int != nil:
		return strings.TrimSpace(fmt.Sprint(*a.Int, " ", a.Unit))
	default:
		return strings.TrimSpace(fmt.Sprint(*a.Float, " ", a.Unit))
	}
}
