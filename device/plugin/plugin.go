// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/kolo-nomad/kolo/device/nvml"
)

// Options are what a Device needs of the process and machine it runs in.
type Options struct {
	// NVML is the library of this machine.
	NVML nvml.Library
	// Stale tells that NVML was replaced on disk since it was loaded; nil is
	// never.
	Stale func() bool
	// Restart ends the process, so that Nomad starts it anew.
	Restart func(why string)
	// Root is put before /dev, /proc and /run; empty on most machines.
	Root string
}

// Device is the device plugin.
type Device struct {
	log  hclog.Logger
	opts Options
	// eventWait and listenAgain are shorter in tests.
	eventWait, listenAgain time.Duration

	mu      sync.Mutex
	closed  bool
	cfg     Config
	places  *places
	monitor *monitor
	stop    context.CancelFunc // of the monitor and the metrics
	running sync.WaitGroup     // both of them
}

var _ device.DevicePlugin = (*Device)(nil)

// New returns a plugin that does nothing before Nomad asks.
func New(log hclog.Logger, opts Options) *Device {
	return &Device{log: log.Named(pluginName), opts: opts, eventWait: eventWait, listenAgain: listenAgain, cfg: DefaultConfig()}
}

// PluginInfo says what the plugin is.
func (d *Device) PluginInfo() (*base.PluginInfoResponse, error) { return pluginInfo(), nil }

// ConfigSchema says what the config block may hold.
func (d *Device) ConfigSchema() (*hclspec.Spec, error) { return configSpec, nil }

// SetConfig takes the configuration. One that has mistakes changes nothing.
func (d *Device) SetConfig(c *base.Config) error {
	cfg, err := decodeConfig(c.PluginConfig)
	if err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !reflect.DeepEqual(d.cfg, cfg) {
		d.halt()
	}
	d.cfg = cfg
	return nil
}

// Close ends what the plugin runs in the background, for good.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.halt()
}

// halt ends what runs in the background, and returns when it has ended. Call it
// under the lock.
func (d *Device) halt() {
	if d.monitor != nil {
		d.stop()
		d.running.Wait()
		d.monitor = nil
	}
}

// started returns the monitor, and starts it when first wanted. It lives on
// when a stream of Nomad ends.
func (d *Device) started() (*monitor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, errStopped
	case !d.cfg.Enabled:
		return nil, device.ErrPluginDisabled
	}
	if d.monitor == nil {
		lib := nvml.Guard(d.opts.NVML, d.cfg.Health.CallTimeout)
		if d.places == nil {
			d.places = readPlaces(d.opts.Root, d.log)
		}
		m := newMonitor(d.cfg, lib, hostHooks{stale: d.opts.Stale, restart: d.opts.Restart}, d.places, d.log)
		m.eventWait = d.eventWait
		ctx, stop := context.WithCancel(context.Background())
		d.monitor, d.stop = m, stop
		d.running.Go(func() { m.run(ctx) })
		if address := d.cfg.PrometheusAddress; address != "" {
			d.running.Go(func() { serveMetrics(ctx, address, d.listenAgain, m, d.log) })
		}
	}
	return d.monitor, nil
}

// Fingerprint streams the devices: once at the beginning, and whenever
// something about them changes. It never streams an error and never ends before
// the context does, for then Nomad would drop the plugin until its agent
// restarts.
func (d *Device) Fingerprint(ctx context.Context) (<-chan *device.FingerprintResponse, error) {
	m, err := d.started()
	if err != nil {
		return nil, err
	}
	out := make(chan *device.FingerprintResponse)
	go func() {
		defer close(out)
		for {
			m = d.fingerprint(ctx, m, out)
			if ctx.Err() != nil {
				return
			}
		}
	}()
	return out, nil
}

// fingerprint streams from one monitor until the context or the monitor ends,
// and returns the monitor to go on with.
func (d *Device) fingerprint(ctx context.Context, m *monitor, out chan<- *device.FingerprintResponse) *monitor {
	select {
	case <-m.ready:
	case <-m.done:
	case <-ctx.Done():
		return m
	}
	for {
		v, changed := m.latest()
		if v != nil {
			select {
			case out <- device.NewFingerprint(v.groups...):
			case <-ctx.Done():
				return m
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return m
		case <-m.done:
			return d.successor(ctx, m)
		}
	}
}

// successor waits for the monitor that follows one that was ended by a change
// of the configuration. A plugin that was disabled shows no devices meanwhile.
func (d *Device) successor(ctx context.Context, old *monitor) *monitor {
	for {
		m, err := d.started()
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
	if _, err := d.started(); err != nil {
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
			m, err := d.started()
			if err != nil {
				return
			}
			readings, err := m.measure(ctx, interval*9/10)
			if v, _ := m.latest(); err == nil && v != nil {
				select {
				case out <- &device.StatsResponse{Groups: v.stats(time.Now(), readings)}:
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
