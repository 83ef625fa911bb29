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

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/metrics"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// Options holds the NVML library, and functions and paths that a Device gets
// from its process.
type Options struct {
	// NVML is the library of this machine.
	NVML nvml.Library
	// Stale reports whether NVML was replaced on disk since it was loaded; nil
	// means never.
	Stale func() bool
	// Restart ends the process, so that Nomad starts it again.
	Restart func(why string)
	// Root is prepended to /dev, /proc, /etc and /run; empty on most machines.
	Root string
}

// metricsRetry is the pause before an address in use is tried again.
const metricsRetry = 15 * time.Second

// Device is the device plugin.
type Device struct {
	log  hclog.Logger
	opts Options
	// eventWait and metricsRetry are shorter in tests.
	eventWait, metricsRetry time.Duration

	mu        sync.Mutex
	closed    bool
	cfg       config
	stableIDs *inventory.StableIDs
	monitor   *monitor.Monitor
	stop      context.CancelFunc // ends the monitor and the metrics
	running   sync.WaitGroup     // both of them
}

var _ device.DevicePlugin = (*Device)(nil)

// New returns a plugin that does nothing before Nomad calls it.
func New(log hclog.Logger, opts Options) *Device {
	return &Device{log: log.Named(pluginName), opts: opts, metricsRetry: metricsRetry, cfg: defaultConfig()}
}

// PluginInfo returns the plugin's name and version.
func (d *Device) PluginInfo() (*base.PluginInfoResponse, error) { return pluginInfo(), nil }

// ConfigSchema returns the schema of the config block.
func (d *Device) ConfigSchema() (*hclspec.Spec, error) { return configSpec, nil }

// SetConfig replaces the configuration. An invalid configuration changes nothing
// and is returned as an error.
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

// Close permanently ends everything that the plugin runs in the background.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.halt()
}

// halt ends the background work, and returns when it has ended. The caller holds
// the lock.
func (d *Device) halt() {
	if d.monitor != nil {
		d.stop()
		d.running.Wait()
		d.monitor = nil
	}
}

// started returns the monitor and the configuration that it runs with. The first
// call starts the monitor, which outlives Nomad's streams.
func (d *Device) started() (*monitor.Monitor, config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, d.cfg, monitor.ErrStopped
	case !d.cfg.Enabled:
		return nil, d.cfg, device.ErrPluginDisabled
	case d.monitor == nil:
		d.start()
	}
	return d.monitor, d.cfg, nil
}

// start starts the monitor and the metrics. The caller holds the lock.
func (d *Device) start() {
	if d.stableIDs == nil {
		d.stableIDs = inventory.OpenStableIDs(d.opts.Root, d.log)
	}
	m := monitor.New(d.cfg.Monitor, monitor.Options{
		NVML:      nvml.Guard(d.opts.NVML, d.cfg.Monitor.Health.CallTimeout),
		StableIDs: d.stableIDs,
		Stale:     d.opts.Stale,
		Restart:   d.opts.Restart,
		EventWait: d.eventWait,
	}, d.log)
	ctx, stop := context.WithCancel(context.Background())
	d.monitor, d.stop = m, stop
	d.running.Go(func() { m.Run(ctx) })
	if address := d.cfg.PrometheusAddress; address != "" {
		d.running.Go(func() { metrics.Serve(ctx, address, d.metricsRetry, m, d.log) })
	}
}
