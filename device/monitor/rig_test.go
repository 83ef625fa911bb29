// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// rig is a monitor on the NVML stub. The test itself triggers the steps, at times
// that it chooses.
type rig struct {
	t   *testing.T
	hw  *nvmltest.Machine
	m   *Monitor
	now time.Time
}

func newRig(t *testing.T, machine string, change func(*Config)) *rig {
	t.Helper()
	hw := nvmltest.New(t, machine)
	hw.Setenv()
	cfg := DefaultConfig()
	cfg.Health.CallTimeout = time.Minute
	if change != nil {
		change(&cfg)
	}
	lib := nvml.New(nvml.Options{Library: hw.Library(), Root: hw.Root()})
	r := &rig{t: t, hw: hw, now: epoch, m: New(cfg, Options{
		NVML:      nvml.Guard(lib, cfg.Health.CallTimeout),
		StableIDs: inventory.OpenStableIDs(hw.Root(), hclog.NewNullLogger()),
		EventWait: 20 * time.Millisecond,
	}, hclog.NewNullLogger())}
	t.Cleanup(func() { r.m.disconnect(nil) })
	r.m.refresh(r.now)
	return r
}

// pass lets time go by, with a check at the end.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.m.check(r.now)
}

// settle lets the grace time pass.
func (r *rig) settle() {
	for range 4 {
		r.pass(5 * time.Second)
	}
}

// reopen closes and opens NVML, as when a GPU was lost, and reads everything
// again.
func (r *rig) reopen() {
	r.m.disconnect(nil)
	r.m.refresh(r.now)
}

// event handles the next event of the driver.
func (r *rig) event() {
	r.t.Helper()
	select {
	case o := <-r.m.events:
		r.m.handle(r.now, o)
	case <-time.After(time.Minute):
		r.t.Fatal("no event came")
	}
}

func (r *rig) view() *View {
	v, _ := r.m.Latest()
	return v
}

// unhealthy maps the ids of unhealthy units to the reasons.
func (r *rig) unhealthy() map[string]string {
	all := map[string]string{}
	v := r.view()
	for _, u := range v.Layout.Units {
		if c := v.Health[u.ID()]; !c.Healthy {
			all[u.ID()] = c.Reason
		}
	}
	return all
}

// topologies encodes the links of each group.
func (r *rig) topologies() []string {
	var all []string
	l := r.view().Layout
	for _, g := range l.Groups() {
		all = append(all, l.Matrix.Sub(g.Members).Encode())
	}
	return all
}

// published runs f and reports whether there is a new view.
func (r *rig) published(f func()) bool {
	_, changed := r.m.Latest()
	f()
	select {
	case <-changed:
		return true
	default:
		return false
	}
}
