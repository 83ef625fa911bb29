// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// ErrStopped means that a monitor has ended.
var ErrStopped = errors.New("the GPU monitor has stopped")

// View is a published state of the machine. It is immutable.
type View struct {
	Driver nvml.Driver
	Layout inventory.Layout
	// Health is the health of units by their ID.
	Health map[string]Condition
}

// Condition is the health of a unit.
type Condition struct {
	Healthy bool
	// Reason is why the unit is not healthy.
	Reason string
}

// Options holds the NVML library and functions that a Monitor gets from its
// process.
type Options struct {
	NVML nvml.Library
	// StableIDs outlive the monitor.
	StableIDs *inventory.StableIDs
	// Stale reports whether NVML was replaced on disk since it was loaded; nil
	// means never.
	Stale func() bool
	// Restart ends the process, so that its parent starts it again.
	Restart func(why string)
	// EventWait is how long one wait for an event lasts, and so how long a listener
	// takes to end. 0 means 2 s.
	EventWait time.Duration
}

// Monitor owns NVML. Only its goroutines call NVML, so that all consumers share one
// set of readings.
type Monitor struct {
	cfg  Config
	lib  nvml.Library
	opts Options
	log  hclog.Logger

	// The fields above requests belong to the goroutine of Run.

	connected bool
	// nvmlErr is the reason why NVML is not connected, or is connected but
	// unusable.
	nvmlErr   error
	inventory inventory.Inventory
	layout    inventory.Layout   // of the inventory
	health    map[string]*health // by unit
	dirty     bool               // the view is out of date
	listener  *listener
	// lateEvents arrived while the listener was being stopped.
	lateEvents  []nvml.Event
	listenRetry backoff
	reopenRetry backoff // of NVML, for unidentified GPUs
	// logged holds what was logged once and should not be logged again.
	logged struct {
		listen     string
		unreadable map[int]string // by NVML's number
	}
	lastRefresh, lastSample time.Time

	// samplingSince holds the GPUs that are being sampled, with the start of the
	// sample.
	samplingSince map[*inventory.GPU]time.Time
	current       map[string]*Reading // by GPU
	round         int                 // of samples

	sampled  chan sampled
	events   chan occurrence
	requests chan request
	ready    chan struct{} // closed after the first refresh
	done     chan struct{} // closed when Run has ended

	mu       sync.Mutex
	view     *View
	changed  chan struct{}       // closed when there is a newer view
	readings map[string]*Reading // immutable
}

// request asks for readings no older than maxAge.
type request struct {
	maxAge time.Duration
	done   chan struct{}
}

// New returns a monitor that does nothing before [Monitor.Run].
func New(cfg Config, opts Options, log hclog.Logger) *Monitor {
	opts.EventWait = cmp.Or(opts.EventWait, eventWait)
	return &Monitor{
		cfg: cfg, lib: opts.NVML, opts: opts, log: log,
		health:        map[string]*health{},
		dirty:         true,
		samplingSince: map[*inventory.GPU]time.Time{},
		current:       map[string]*Reading{},
		sampled:       make(chan sampled, 16),
		events:        make(chan occurrence),
		requests:      make(chan request),
		ready:         make(chan struct{}),
		done:          make(chan struct{}),
		changed:       make(chan struct{}),
	}
}

// Run monitors until the context ends.
func (m *Monitor) Run(ctx context.Context) {
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
		case s := <-m.sampled:
			m.takeLate(time.Now(), s)
		case o := <-m.events:
			m.handle(time.Now(), o)
		case r := <-m.requests:
			m.observe(time.Now(), r.maxAge)
			close(r.done)
		}
	}
}

// Ready returns a channel that is closed after the first view was published.
func (m *Monitor) Ready() <-chan struct{} { return m.ready }

// Done returns a channel that is closed when Run has ended.
func (m *Monitor) Done() <-chan struct{} { return m.done }

// Latest returns the newest view, and a channel that is closed when there is a
// newer one. The view is nil before Ready.
func (m *Monitor) Latest() (*View, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.changed
}

// Readings returns the newest readings by the UUID of the GPU. They are immutable.
func (m *Monitor) Readings() map[string]*Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.readings
}

// Measure returns readings no older than maxAge. The context bounds only the wait;
// the sample itself continues.
func (m *Monitor) Measure(ctx context.Context, maxAge time.Duration) (map[string]*Reading, error) {
	r := request{maxAge: maxAge, done: make(chan struct{})}
	select {
	case m.requests <- r:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a reading: %w", ctx.Err())
	case <-m.done:
		return nil, ErrStopped
	}
	select {
	case <-r.done:
		return m.Readings(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a reading: %w", ctx.Err())
	}
}
