// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"time"

	"github.com/hashicorp/nomad/plugins/device"

	"github.com/kolo-nomad/kolo/device/monitor"
)

// Fingerprint streams the devices: once at the beginning, and whenever something
// about them changes. It never streams an error and never ends before the context
// does, because Nomad would then drop the plugin until the agent restarts.
func (d *Device) Fingerprint(ctx context.Context) (<-chan *device.FingerprintResponse, error) {
	m, _, err := d.started()
	if err != nil {
		return nil, err
	}
	out := make(chan *device.FingerprintResponse)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			m = d.fingerprint(ctx, m, out)
		}
	}()
	return out, nil
}

// fingerprint streams from one monitor until the context or the monitor ends, and
// returns the monitor to continue with.
func (d *Device) fingerprint(ctx context.Context, m *monitor.Monitor, out chan<- *device.FingerprintResponse) *monitor.Monitor {
	select {
	case <-m.Ready():
	case <-m.Done():
	case <-ctx.Done():
		return m
	}
	for {
		v, changed := m.Latest()
		if v != nil {
			select {
			case out <- device.NewFingerprint(groups(v)...):
			case <-ctx.Done():
				return m
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return m
		case <-m.Done():
			return d.successor(ctx, m)
		}
	}
}

// successor waits for the monitor that replaces one that ended because the
// configuration changed. A disabled plugin sends nothing meanwhile.
func (d *Device) successor(ctx context.Context, old *monitor.Monitor) *monitor.Monitor {
	for {
		m, _, err := d.started()
		if err == nil && m != old {
			return m
		}
		select {
		case <-ctx.Done():
			return old
		case <-time.After(time.Second):
		}
	}
}

// Stats streams measurements of the devices.
func (d *Device) Stats(ctx context.Context, interval time.Duration) (<-chan *device.StatsResponse, error) {
	if _, _, err := d.started(); err != nil {
		return nil, err
	}
	if interval <= 0 {
		interval = time.Second
	}
	out := make(chan *device.StatsResponse)
	go func() {
		defer close(out)
		next := time.NewTicker(interval)
		defer next.Stop()
		for {
			m, _, err := d.started()
			if err != nil {
				return
			}
			readings, err := m.Measure(ctx, interval*9/10)
			if v, _ := m.Latest(); err == nil && v != nil {
				select {
				case out <- &device.StatsResponse{Groups: stats(v, time.Now(), readings)}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
