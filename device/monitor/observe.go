// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"maps"
	"reflect"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// refresh reads the whole machine.
func (m *Monitor) refresh(now time.Time) {
	defer m.publish()
	m.lastRefresh = now
	if !m.connect() {
		m.assess(now)
		return
	}
	inv, err := inventory.Read(m.lib, m.inventory, m.cfg.IgnoredGPUIDs)
	if err != nil {
		m.nvmlUnavailable(now, err)
		return
	}
	m.logUnreadable(&inv)
	m.inventory, m.dirty = inv, true
	clear(m.samplingSince)
	m.layout = inventory.NewLayout(&m.inventory, m.cfg.GroupBy, m.opts.StableIDs)
	m.syncHealth()
	m.listen(now)
	m.observe(now, 0)
}

// syncHealth gives new units a state and forgets units that no longer exist,
// such as MIG instances that were destroyed.
func (m *Monitor) syncHealth() {
	exists := map[string]bool{}
	for _, u := range m.layout.Units {
		exists[u.ID()] = true
		if m.health[u.ID()] == nil {
			m.health[u.ID()] = newHealth(m.cfg.Health)
		}
	}
	maps.DeleteFunc(m.health, func(id string, _ *health) bool { return !exists[id] })
}

// logUnreadable logs GPUs that cannot be read, once for each error. On the first
// call it also logs IDs to ignore that no GPU has.
func (m *Monitor) logUnreadable(inv *inventory.Inventory) {
	texts := map[int]string{}
	for i, err := range inv.Unreadable {
		texts[i] = err.Error()
		if m.logged.unreadable[i] != texts[i] {
			m.log.Warn("cannot read a GPU", "error", err)
		}
	}
	if m.logged.unreadable == nil && len(inv.UnmatchedIgnores) > 0 {
		m.log.Warn("ignored_gpu_ids has ids that no GPU of this machine has; nvidia-smi -L lists those that exist", "ids", inv.UnmatchedIgnores)
	}
	m.logged.unreadable = texts
}

// retryLost is the interval at which a GPU that has lost its handle is looked for.
const retryLost = 15 * time.Second

// check performs the regular check of NVML and all GPUs.
func (m *Monitor) check(now time.Time) {
	if !m.connected {
		m.refresh(now)
		return
	}
	n, err := m.lib.Count()
	if err != nil && (nvml.Unavailable(err) || isHung(err)) {
		m.nvmlUnavailable(now, err)
		m.publish()
		return
	}
	m.nvmlErr = nil
	isolated, inGrace := m.isolated()
	switch {
	case err == nil && n != m.inventory.Listed:
		m.log.Info("the number of GPUs has changed", "before", m.inventory.Listed, "now", n)
		m.refresh(now)
	case m.listener == nil, inGrace, (m.inventory.Incomplete() || isolated) && now.Sub(m.lastRefresh) >= retryLost:
		m.refresh(now)
	case m.cfg.Health.Enabled:
		m.observe(now, m.cfg.Health.Interval/2)
	}
}

// isolated reports whether a unit is isolated from its island, and whether one such
// unit is still healthy. The links of such a unit must be read again before its
// grace time ends.
func (m *Monitor) isolated() (some, inGrace bool) {
	for _, h := range m.health {
		if h.has(causeIsland) {
			some, inGrace = true, inGrace || h.healthy
		}
	}
	return some, inGrace
}

// period reads the machine again. It opens NVML again first if needed, because only
// then NVML finds a GPU that was reset.
func (m *Monitor) period(now time.Time) {
	if m.anyGPU(isLost) || m.reopenForUnidentified(now) {
		m.disconnect(nil)
	}
	m.refresh(now)
}

// observe samples every GPU unless the last sample is fresh enough, and assesses
// the health from the samples.
func (m *Monitor) observe(now time.Time, maxAge time.Duration) {
	defer m.publish()
	if m.connected && (m.lastSample.IsZero() || now.Sub(m.lastSample) >= maxAge) {
		m.lastSample = now
		if err := m.sample(now); err != nil {
			m.nvmlUnavailable(now, err)
			return
		}
	}
	m.assess(now)
}

// publish publishes a new view if anything has changed.
func (m *Monitor) publish() {
	if !m.dirty {
		return
	}
	m.dirty = false
	v := &View{Driver: m.inventory.Driver, Layout: m.layout, Health: map[string]Condition{}}
	for id, h := range m.health {
		v.Health[id] = Condition{Healthy: h.healthy, Reason: h.reason}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if reflect.DeepEqual(m.view, v) {
		return
	}
	m.view = v
	close(m.changed)
	m.changed = make(chan struct{})
}
