// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"cmp"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// eventWait is how long one wait for an event lasts by default.
const eventWait = 2 * time.Second

// listener is the goroutine that waits for events of the driver. It ends by itself
// if the wait fails.
type listener struct {
	gpus string // the UUIDs of the GPUs that it listens to
	stop chan struct{}
	done chan struct{}
}

// occurrence is an event, or the error that ended a listener.
type occurrence struct {
	from  *listener
	event nvml.Event
	err   error
}

// listen makes sure that a listener runs for all reachable GPUs. If starting it
// fails, even for some GPUs only, it tries again less and less often.
func (m *Monitor) listen(now time.Time) {
	var gpus []nvml.GPU
	var ids []string
	for _, g := range m.inventory.GPUs {
		if g.Handle != nil {
			gpus = append(gpus, g.Handle)
			ids = append(ids, g.Facts.UUID)
		}
	}
	l := &listener{gpus: strings.Join(ids, ","), stop: make(chan struct{}), done: make(chan struct{})}
	due := !m.listenRetry.next.IsZero() && !now.Before(m.listenRetry.next)
	if m.listener != nil && m.listener.gpus == l.gpus && !due || !m.stopListener() {
		return
	}
	w, failed, err := m.lib.Watch(gpus)
	m.listener = l
	problem := err
	for i := range gpus {
		problem = cmp.Or(problem, failed[i])
	}
	m.retryListen(now, problem)
	if err != nil {
		close(l.done)
		return
	}
	go l.run(w, m.opts.EventWait, m.events, m.done)
}

// retryListen logs a problem of a new listener once, and schedules the next
// attempt. There is none if the GPU does not support events.
func (m *Monitor) retryListen(now time.Time, problem error) {
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if text != "" && text != m.logged.listen {
		m.log.Warn("cannot listen to the driver's events, or not to those of all GPUs; health depends on samples alone", "error", problem)
	}
	m.logged.listen = text
	if problem == nil || nvml.Unsupported(problem) {
		m.listenRetry = backoff{}
	} else {
		m.listenRetry.failed(now, m.cfg.FingerprintPeriod)
	}
}

// run ends when it is stopped, after it has delivered an event that it has
// received.
func (l *listener) run(w nvml.Watch, wait time.Duration, to chan<- occurrence, monitorDone <-chan struct{}) {
	defer close(l.done)
	defer w.Close() //nolint:errcheck // either the set is freed or NVML is gone
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
		case <-monitorDone:
			return
		}
		stopped = stopped || err != nil
	}
}

// stopListener ends the listener. It returns false if the listener does not end
// because its wait hangs.
func (m *Monitor) stopListener() bool {
	l := m.listener
	if l == nil {
		return true
	}
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	limit := time.NewTimer(m.opts.EventWait + m.cfg.Health.CallTimeout)
	defer limit.Stop()
	for {
		select {
		case o := <-m.events:
			if o.err == nil {
				m.lateEvents = append(m.lateEvents, o.event)
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
