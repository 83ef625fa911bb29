// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// rig is a monitor on the stand-in NVML whose steps a test makes itself, at
// times of its own.
type rig struct {
	t   *testing.T
	hw  *nvmltest.Machine
	m   *monitor
	now time.Time
}

func library(t *testing.T, hw *nvmltest.Machine) *nvml.Real {
	t.Helper()
	for _, kv := range hw.Env() {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	return nvml.New(nvml.Options{Library: hw.Library(), Root: hw.Root()})
}

func newRig(t *testing.T, machine string, change func(*Config)) *rig {
	t.Helper()
	hw := nvmltest.New(t, machine)
	cfg := DefaultConfig()
	cfg.Health.CallTimeout = time.Minute
	if change != nil {
		change(&cfg)
	}
	lib := nvml.Guard(library(t, hw), cfg.Health.CallTimeout)
	r := &rig{t: t, hw: hw, now: epoch, m: newMonitor(cfg, lib, hostHooks{}, readPlaces(hw.Root(), hclog.NewNullLogger()), hclog.NewNullLogger())}
	r.m.eventWait = 20 * time.Millisecond
	t.Cleanup(func() { r.m.disconnect(nil) })
	r.m.refresh(r.now)
	return r
}

// pass lets time go by, with a check at the end.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.m.check(r.now)
}

// reopen lets go of NVML, as when a GPU was lost, and reads everything anew.
func (r *rig) reopen() {
	r.m.disconnect(nil)
	r.m.refresh(r.now)
}

// event hands on the next event of the driver.
func (r *rig) event() {
	r.t.Helper()
	select {
	case o := <-r.m.events:
		r.m.occurred(r.now, o)
	case <-time.After(time.Minute):
		r.t.Fatal("no event came")
	}
}

func (r *rig) groups() []*device.DeviceGroup {
	v, _ := r.m.latest()
	return v.groups
}

// sick maps the ids of unhealthy devices to the reasons.
func (r *rig) sick() map[string]string {
	all := map[string]string{}
	for _, g := range r.groups() {
		for _, d := range g.Devices {
			if !d.Healthy {
				all[d.ID] = d.HealthDesc
			}
		}
	}
	return all
}

// told runs f and tells whether Nomad would have got a message.
func (r *rig) told(f func()) bool {
	_, changed := r.m.latest()
	f()
	select {
	case <-changed:
		return true
	default:
		return false
	}
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
