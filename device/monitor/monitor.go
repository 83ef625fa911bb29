// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// view is what was last published. It does not change once made.
type view struct {
	layout layout
	// names are the groups of the layout's units.
	names  []string
	health map[string]condition // by unit
	groups []*device.DeviceGroup
}

// monitor owns NVML: only its goroutine talks to it, so that Nomad's streams,
// Prometheus and the health checks share one set of readings.
type monitor struct {
	cfg  Config
	lib  nvml.Library
	log  hclog.Logger
	host hostHooks
	// places outlive the monitor.
	places *places

	// What follows belongs to the goroutine of run.
	open     bool
	problem  error // why NVML is not open, or of no use though it is
	machine  machine
	layout   layout             // of the machine
	health   map[string]*health // by unit
	dirty    bool               // the view is out of date
	listener *listener
	// overdue are events that came while the listener was ended.
	overdue    []nvml.Event
	watch      backoff        // of events
	watchSaid  string         // why it failed last
	reopen     backoff        // of NVML, for GPUs that were never read
	unreadSaid map[int]string // errors that were told, by NVML's number
	// refreshed and looked are when the machine and the samples were last read.
	refreshed, looked time.Time

	// current are the readings by GPU, round counts the rounds of them.
	current map[string]*reading
	round   int
	sampled chan sampled

	eventWait time.Duration
	events    chan occurrence
	requests  chan request
	done      chan struct{} // closed when run has ended

	ready     chan struct{} // closed when the machine was read once, or could not be
	published atomic.Pointer[view]
	readings  atomic.Pointer[map[string]*reading] // by GPU; not changed once stored
	mu        sync.Mutex
	changed   chan struct{} // closed when there is something new for Nomad
}

// hostHooks are what a monitor cannot do by itself.
type hostHooks struct {
	// stale tells that a newer NVML is on disk than the one in use.
	stale func() bool
	// restart ends the process, so that Nomad starts it anew.
	restart func(why string)
}

// request asks for readings that are not older than this.
type request struct {
	maxAge time.Duration
	done   chan struct{}
}

func newMonitor(cfg Config, lib nvml.Library, host hostHooks, p *places, log hclog.Logger) *monitor {
	m := &monitor{
		cfg: cfg, lib: lib, host: host, places: p, log: log,
		health:    map[string]*health{},
		dirty:     true,
		eventWait: eventWait,
		current:   map[string]*reading{},
		sampled:   make(chan sampled, 16),
		events:    make(chan occurrence),
		requests:  make(chan request),
		done:      make(chan struct{}),
		ready:     make(chan struct{}),
		changed:   make(chan struct{}),
	}
	m.readings.Store(&map[string]*reading{})
	return m
}

// run works until the context ends.
func (m *monitor) run(ctx context.Context) {
	defer close(m.done)
	m.refresh(time.Now())
	close(m.ready)

	check := time.NewTicker(m.cfg.Health.Interval)
	defer check.Stop()
	period := time.NewTicker(m.cfg.FingerprintPeriod)
	defer period.Stop()
	for {
		select {
		case <-ctx.Done():
			m.disconnect(ctx.Err())
			return
		case <-check.C:
			m.check(time.Now())
		case <-period.C:
			m.period(time.Now())
		case r := <-m.sampled:
			m.late(time.Now(), r)
		case o := <-m.events:
			m.occurred(time.Now(), o)
		case r := <-m.requests:
			m.look(time.Now(), r.maxAge)
			close(r.done)
		}
	}
}

// measure returns readings that are at most so old. The context bounds the
// wait only: the reading itself goes on.
func (m *monitor) measure(ctx context.Context, maxAge time.Duration) (map[string]*reading, error) {
	r := request{maxAge: maxAge, done: make(chan struct{})}
	select {
	case m.requests <- r:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a reading: %w", ctx.Err())
	case <-m.done:
		return nil, errStopped
	}
	select {
	case <-r.done:
		return *m.readings.Load(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a reading: %w", ctx.Err())
	}
}

// latest returns what was last published and a channel that is closed when
// there is something newer.
func (m *monitor) latest() (*view, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published.Load(), m.changed
}
