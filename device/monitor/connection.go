// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"errors"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// connect opens NVML unless it is open. It logs a failure once.
func (m *Monitor) connect() bool {
	if m.connected {
		return true
	}
	err := m.lib.Open()
	if err == nil {
		if m.nvmlErr != nil || m.lastSample.IsZero() {
			m.log.Info("NVML is available")
		}
		m.connected, m.nvmlErr = true, nil
		return true
	}
	if m.nvmlErr == nil || m.nvmlErr.Error() != err.Error() {
		m.log.Warn("NVML is unavailable; GPUs are unhealthy until it is available", "error", err)
	}
	m.nvmlErr = err
	if nvml.Unavailable(err) && m.opts.Stale != nil && m.opts.Stale() {
		m.opts.Restart("a new libnvidia-ml.so.1 was installed, which only a new process can load")
	}
	return false
}

// nvmlUnavailable handles an error of NVML as a whole.
func (m *Monitor) nvmlUnavailable(now time.Time, err error) {
	if m.nvmlErr == nil {
		m.log.Warn("NVML has become unavailable; GPUs are unhealthy until it is available", "error", err)
	}
	if isHung(err) {
		// NVML cannot be closed now, and may recover by itself.
		m.nvmlErr = err
	} else {
		m.disconnect(err)
	}
	clear(m.current)
	m.shareReadings()
	m.assess(now)
}

// disconnect closes NVML. While a call hangs NVML stays open, because closing it
// during that call may end the process, or hang as well.
func (m *Monitor) disconnect(why error) {
	if !m.connected {
		return
	}
	if m.anyGPU(isHung) || !m.stopListener() {
		m.nvmlErr = why
		return
	}
	err := m.lib.Close()
	if isHung(err) {
		m.nvmlErr = why
		return
	}
	if err != nil { // expected when the driver was unloaded
		m.log.Debug("closing NVML failed", "error", err)
	}
	m.connected, m.nvmlErr = false, why
	for _, g := range m.inventory.GPUs {
		g.Handle = nil
	}
}

// reopenForUnidentified reports whether it is time to open NVML again for GPUs that
// were never readable. That may never help, so it is done less and less often, and
// rarely if they are probably the GPUs to ignore.
func (m *Monitor) reopenForUnidentified(now time.Time) bool {
	if m.inventory.Unidentified() == 0 {
		m.reopenRetry = backoff{}
		return false
	}
	if now.Before(m.reopenRetry.next) {
		return false
	}
	first := m.cfg.FingerprintPeriod
	if m.inventory.UnidentifiedAreIgnored() {
		first = maxBackoff
	}
	m.reopenRetry.failed(now, first)
	return true
}

// anyGPU reports whether a GPU does not answer for such a reason.
func (m *Monitor) anyGPU(reason func(error) bool) bool {
	return slices.ContainsFunc(m.inventory.GPUs, func(g *inventory.GPU) bool { return g.Err != nil && reason(g.Err) })
}

func isHung(err error) bool { return errors.Is(err, nvml.ErrHung) }

func isLost(err error) bool { return !isHung(err) }
