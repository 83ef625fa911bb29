// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// eventWait is how long one wait for an event lasts as a rule, and so how long a
// listener takes to end.
const eventWait = 2 * time.Second

// listener is the goroutine that waits for events of the driver. It ends by
// itself when the wait fails.
type listener struct {
	gpus string // those it listens to
	stop chan struct{}
	done chan struct{}
}

// occurrence is an event, or the error that ended a listener.
type occurrence struct {
	from  *listener
	event nvml.Event
	err   error
}

// listen makes sure that there is a listener for the GPUs that can be reached.
// One that could not be had, or not for all of them, is tried again, less and
// less often.
func (m *monitor) listen(now time.Time) {
	var gpus []nvml.GPU
	var ids []string
	for _, c := range m.machine.cards {
		if c.gpu != nil {
			gpus = append(gpus, c.gpu)
			ids = append(ids, c.facts.UUID)
		}
	}
	l := &listener{gpus: strings.Join(ids, ","), stop: make(chan struct{}), done: make(chan struct{})}
	enough := m.watch.next.IsZero() || now.Before(m.watch.next)
	if m.listener != nil && m.listener.gpus == l.gpus && enough || !m.deafen() {
		return
	}
	w, without, err := m.lib.Watch(gpus)
	m.listener = l
	problem := err
	for i := range gpus {
		problem = cmp.Or(problem, without[i])
	}
	said := ""
	if problem != nil {
		said = problem.Error()
	}
	if said != "" && said != m.watchSaid {
		m.log.Warn("events of the driver cannot be watched, or not of all GPUs; health is judged by readings alone", "error", problem)
	}
	m.watchSaid = said
	if problem == nil || nvml.Unsupported(problem) {
		m.watch = backoff{}
	} else {
		m.watch.failed(now, m.cfg.FingerprintPeriod)
	}
	if err != nil {
		close(l.done)
		return
	}
	go l.run(w, m.eventWait, m.events, m.done)
}

// run ends when it is told to, but hands on what it has heard before.
func (l *listener) run(w nvml.Watch, wait time.Duration, to chan<- occurrence, gone <-chan struct{}) {
	defer close(l.done)
	defer w.Close() //nolint:errcheck // the set is freed or NVML is gone
	for stopped := false; !stopped; {
		event, ok, err := w.Next(wait)
		select {
		case <-l.stop:
			stopped = true
		default:
		}
		if !ok && (err == nil || stopped) {
			continue
		}
		select {
		case to <- occurrence{from: l, event: event, err: err}:
		case <-gone:
			return
		}
		stopped = stopped || err != nil
	}
}

// deafen ends the listener. It returns false when that does not happen because
// the wait hangs.
func (m *monitor) deafen() bool {
	l := m.listener
	if l == nil {
		return true
	}
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	limit := time.NewTimer(m.eventWait + m.cfg.Health.CallTimeout)
	defer limit.Stop()
	for {
		select {
		case o := <-m.events:
			if o.err == nil {
				m.overdue = append(m.overdue, o.event)
			}
		case <-l.done:
			m.listener = nil
			return true
		case <-limit.C:
			m.log.Warn("the wait for events of the driver hangs")
			return false
		}
	}
}

// occurred takes in what a listener reports.
func (m *monitor) occurred(now time.Time, o occurrence) {
	defer m.publish()
	if o.from != m.listener {
		return // of a listener that was ended since
	}
	if o.err != nil {
		m.log.Warn("watching the driver's events has ended; it begins anew", "error", o.err)
		<-o.from.done
		m.listener = nil
		if nvml.Gone(o.err) {
			m.away(now, o.err)
		}
		return
	}
	m.happened(now, o.event)
	m.assess(now)
}

// happened notes an event with the units that it is about.
func (m *monitor) happened(now time.Time, e nvml.Event) {
	if e.Kind == nvml.EventXID && slices.Contains(m.cfg.Health.IgnoredXIDs, e.XID) {
		m.log.Debug("ignoring an XID that a program causes", "gpu", e.UUID, "xid", e.XID)
		return
	}
	for _, u := range m.machine.units() {
		if !concerns(e, u) || m.health[u.id()] == nil {
			continue
		}
		if e.Kind == nvml.EventDoubleBit {
			m.health[u.id()].set(now, causeECC, "memory errors that ECC could not correct")
		} else {
			m.health[u.id()].set(now, causeXID, xidText(e.XID))
		}
	}
}

// concerns tells whether an event is about a unit. One that names no GPU
// concerns all; one that names a MIG instance only this.
func concerns(e nvml.Event, u unit) bool {
	if e.UUID != "" && e.UUID != u.card.facts.UUID {
		return false
	}
	if in := u.instance; in != nil && e.GI >= 0 {
		return in.GI == e.GI && (e.CI < 0 || in.CI == e.CI)
	}
	return true
}
