// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package monitor

import (
	"time"

	"github.com/kolo-nomad/kolo/device/inventory"
)

// Config holds the settings that an operator can change.
type Config struct {
	// IgnoredGPUIDs are UUIDs of GPUs and MIG instances to omit.
	IgnoredGPUIDs []string
	// FingerprintPeriod is the interval at which the inventory is read.
	FingerprintPeriod time.Duration
	// GroupBy selects how products are split into groups.
	GroupBy inventory.GroupBy
	Health  HealthConfig
}

// HealthConfig decides when a unit counts as healthy.
type HealthConfig struct {
	// Enabled turns health checks on. Without them every GPU that NVML lists is
	// healthy.
	Enabled bool
	// Interval is the interval at which the GPUs are checked.
	Interval time.Duration
	// Grace is how long a transient fault (a call that fails or hangs, NVML
	// unavailable, the fabric not ready) must last before it counts.
	Grace time.Duration
	// HealthyAfter is how long a unit must be free of faults before it is
	// healthy again. It doubles with each relapse within an hour.
	HealthyAfter time.Duration
	// XIDRecovery is how long a unit stays unhealthy after an XID or a double-bit
	// error. With 0 it does so until the plugin restarts, or the GPU has
	// disappeared and returned, as after a reset.
	XIDRecovery time.Duration
	// IgnoredXIDs are errors that a program causes rather than the GPU.
	IgnoredXIDs []uint64
	// CallTimeout bounds a reading; after that the GPU counts as hung.
	CallTimeout time.Duration
}

// DefaultConfig returns a Config with the default of each option.
//
// The ignored XIDs are the same as in NVIDIA's own plugins: graphics engine
// exception (13), page fault (31), channel errors (43, 45), video processor (68),
// context switch (109).
func DefaultConfig() Config {
	return Config{
		FingerprintPeriod: time.Minute,
		GroupBy:           inventory.GroupByNode,
		Health: HealthConfig{
			Enabled:      true,
			Interval:     5 * time.Second,
			Grace:        10 * time.Second,
			HealthyAfter: 30 * time.Second,
			XIDRecovery:  10 * time.Minute,
			IgnoredXIDs:  []uint64{13, 31, 43, 45, 68, 109},
			CallTimeout:  10 * time.Second,
		},
	}
}
