// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// errStopped tells that a monitor has ended.
var errStopped = errors.New("the GPU monitor has stopped")

// refresh reads the whole machine anew.
func (m *monitor) refresh(now time.Time) {
	defer m.publish()
	m.refreshed = now
	if !m.connect() {
		m.assess(now)
		return
	}
	read, err := readMachine(m.lib, m.machine, m.cfg.IgnoredGPUIDs)
	if err != nil {
		m.away(now, err)
		return
	}
	m.sayUnread(&read)
	m.machine, m.dirty = read, true
	m.layout = newLayout(&m.machine, m.cfg.GroupBy, m.places)
	m.syncHealth()
	m.listen(now)
	m.look(now, 0)
}

// syncHealth gives new units a state and forgets units that are no more, such
// as MIG instances that were taken down.
func (m *monitor) syncHealth() {
	there := map[string]bool{}
	for _, u := range m.machine.units() {
		there[u.id()] = true
		if m.health[u.id()] == nil {
			m.health[u.id()] = newHealth(m.cfg.Health)
		}
	}
	maps.DeleteFunc(m.health, func(id string, _ *health) bool { return !there[id] })
}

// sayUnread tells of GPUs that cannot be read, once for each error, and of ids to
// ignore that no GPU has.
func (m *monitor) sayUnread(read *machine) {
	said := map[int]string{}
	for i, err := range read.unread {
		said[i] = err.Error()
		if m.unreadSaid[i] != said[i] {
			m.log.Warn("a GPU cannot be read", "error", err)
		}
	}
	if m.unreadSaid == nil && len(read.unmet) > 0 {
		m.log.Warn("ignored_gpu_ids has ids that no GPU of this machine has; nvidia-smi -L shows those that there are", "ids", read.unmet)
	}
	m.unreadSaid = said
}

// connect opens NVML if it is not. It says so once when it cannot.
func (m *monitor) connect() bool {
	if m.open {
		return true
	}
	err := m.lib.Open()
	if err == nil {
		if m.problem != nil || m.machine.pairs == nil {
			m.log.Info("NVML is there")
		}
		m.open, m.problem = true, nil
		return true
	}
	if m.problem == nil || m.problem.Error() != err.Error() {
		m.log.Warn("NVML cannot be used; its GPUs are unhealthy until it can", "error", err)
	}
	m.problem = err
	if nvml.Gone(err) && m.host.stale != nil && m.host.stale() {
		m.host.restart("a new libnvidia-ml.so.1 was installed, which only a new process can load")
	}
	return false
}

// away notes that NVML has gone.
func (m *monitor) away(now time.Time, err error) {
	if m.problem == nil {
		m.log.Warn("NVML has gone; its GPUs are unhealthy until it is back", "error", err)
	}
	if isHung(err) {
		// It cannot be closed, and may go on by itself.
		m.problem = err
	} else {
		m.disconnect(err)
	}
	// What was read before does not hold any more.
	clear(m.current)
	m.share()
	m.assess(now)
}

// disconnect lets go of NVML. While a call hangs it stays open, for closing it
// under that call may end the process, or hang as well.
func (m *monitor) disconnect(why error) {
	if !m.open {
		return
	}
	if m.anyMissing(isHung) || !m.deafen() {
		m.problem = why
		return
	}
	err := m.lib.Close()
	if isHung(err) {
		m.problem = why
		return
	}
	if err != nil { // it says nothing new when NVML has gone
		m.log.Debug("closing NVML", "error", err)
	}
	m.open, m.problem = false, why
	for _, c := range m.machine.cards {
		c.gpu = nil
	}
}

// retryLost is how often a GPU that has no handle any more is looked for.
const retryLost = 15 * time.Second

// check is the regular look at everything.
func (m *monitor) check(now time.Time) {
	if !m.open {
		m.refresh(now)
		return
	}
	n, err := m.lib.Count()
	if err != nil && (nvml.Gone(err) || isHung(err)) {
		m.away(now, err)
		m.publish()
		return
	}
	m.problem = nil
	cutOff, inGrace := m.cutOff()
	switch {
	case err == nil && n != m.machine.listed:
		m.log.Info("the number of GPUs has changed", "before", m.machine.listed, "now", n)
		m.refresh(now)
	case m.listener == nil, inGrace, (m.machine.incomplete() || cutOff) && now.Sub(m.refreshed) >= retryLost:
		m.refresh(now)
	case m.cfg.Health.Enabled:
		m.look(now, m.cfg.Health.Interval/2)
	}
}

// cutOff tells whether a unit is cut off from its island, and whether one such
// unit is still healthy: what it is judged by must then be read again before the
// grace time is over.
func (m *monitor) cutOff() (some, inGrace bool) {
	for _, h := range m.health {
		if h.has(causeIsland) {
			some, inGrace = true, inGrace || h.ok
		}
	}
	return some, inGrace
}

// look takes a sample of every GPU unless the last one is fresh enough, and
// judges the health by it.
func (m *monitor) look(now time.Time, maxAge time.Duration) {
	defer m.publish()
	if m.open && (m.looked.IsZero() || now.Sub(m.looked) >= maxAge) {
		m.looked = now
		if err := m.sample(now); err != nil {
			m.away(now, err)
			return
		}
	}
	m.assess(now)
}

// assess settles the state of every unit.
func (m *monitor) assess(now time.Time) {
	away := ""
	if !m.open || m.problem != nil {
		away = "NVML is not available"
		if m.problem != nil {
			away = "NVML is not available: " + plain(m.problem)
		}
	}
	for _, e := range m.overdue {
		m.happened(now, e)
	}
	m.overdue = nil
	for _, c := range m.machine.cards {
		lost, call := "", ""
		switch err := c.missing; {
		case away != "" || err == nil:
		case errors.Is(err, errUnlisted), errors.Is(err, nvml.ErrGPULost), errors.Is(err, nvml.ErrResetRequired):
			lost = plain(err)
		default:
			call = "the GPU does not answer: " + plain(err)
		}
		m.each(c, func(h *health) {
			h.set(now, causeNVML, away)
			if away != "" {
				return // of the GPU nothing can be said
			}
			if lost == "" && h.has(causeLost) {
				h.cameBack()
			}
			h.set(now, causeLost, lost)
			h.set(now, causeCall, call)
		})
	}
	m.judgeIslands(now, away != "")
	for id, h := range m.health {
		if !h.settle(now) {
			continue
		}
		m.dirty = true
		if h.ok {
			m.log.Info("a GPU is healthy again", "gpu", id)
		} else {
			m.log.Warn("a GPU is unhealthy", "gpu", id, "reason", h.reason)
		}
	}
}

// judgeIslands finds units that are not joined any more with the group that they
// are offered in, where groups are islands.
func (m *monitor) judgeIslands(now time.Time, away bool) {
	if m.cfg.GroupBy != GroupByNVLink || away {
		return
	}
	for i, u := range m.layout.units {
		why := ""
		if m.layout.cutOff[i] && u.card.missing == nil {
			why = "its NVLinks to the rest of " + m.layout.islandName(i) + " are down"
		}
		if h := m.health[u.id()]; h != nil {
			h.set(now, causeIsland, why)
		}
	}
}

// plain is the cause without the call that met it, which may be another one
// each time.
func plain(err error) string {
	var code nvml.Code
	if errors.As(err, &code) {
		return code.Error()
	}
	return err.Error()
}

// each calls f for the state of every unit of a GPU.
func (m *monitor) each(c *card, f func(*health)) {
	for _, u := range m.machine.units() {
		if u.card == c && m.health[u.id()] != nil {
			f(m.health[u.id()])
		}
	}
}

func isHung(err error) bool { return errors.Is(err, nvml.ErrHung) }

func isLost(err error) bool { return !isHung(err) }

// anyMissing tells whether a GPU is missing for such a reason.
func (m *monitor) anyMissing(reason func(error) bool) bool {
	for _, c := range m.machine.cards {
		if c.missing != nil && reason(c.missing) {
			return true
		}
	}
	return false
}

// period reads the machine anew. A GPU that was reset is found again only by a
// new start of NVML.
func (m *monitor) period(now time.Time) {
	if m.anyMissing(isLost) || m.reopenForUnread(now) {
		m.disconnect(nil)
	}
	m.refresh(now)
}

// reopenForUnread tells whether it is time to open NVML anew for the sake of GPUs
// that were never read. That may be in vain for ever, so it is done less and less
// often, and seldom where they are likely those to be ignored.
func (m *monitor) reopenForUnread(now time.Time) bool {
	if m.machine.strangers() == 0 {
		m.reopen = backoff{}
		return false
	}
	if now.Before(m.reopen.next) {
		return false
	}
	first := m.cfg.FingerprintPeriod
	if m.machine.ignoresUnread() {
		first = maxBackoff
	}
	m.reopen.failed(now, first)
	return true
}

// publish makes a new view if anything is different, and wakes those who wait
// for one if it is different for Nomad.
func (m *monitor) publish() {
	if !m.dirty {
		return
	}
	m.dirty = false
	v := &view{layout: m.layout, health: map[string]condition{}}
	for id, h := range m.health {
		v.health[id] = condition{ok: h.ok, reason: h.reason}
	}
	for i := range v.layout.units {
		v.names = append(v.names, v.layout.groupName(i))
	}
	v.groups = v.layout.groups(&m.machine, v.health)

	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.published.Swap(v)
	if before == nil || !reflect.DeepEqual(before.groups, v.groups) {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}
