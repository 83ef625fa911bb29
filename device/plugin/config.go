// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/nomad/plugins/base"
)

// GroupBy is how the GPUs of one model are split into groups.
type GroupBy string

// The ways to split.
const (
	// GroupByNode makes one group of each model, as nomad-device-nvidia does.
	GroupByNode GroupBy = "node"
	// GroupByNVLink makes one group of each NVLink island.
	GroupByNVLink GroupBy = "nvlink"
	// GroupByNUMA makes one group of each NUMA node.
	GroupByNUMA GroupBy = "numa"
	// GroupByPCIe makes one group of each PCIe switch.
	GroupByPCIe GroupBy = "pcie"
)

var groupings = []GroupBy{GroupByNode, GroupByNVLink, GroupByNUMA, GroupByPCIe}

// Config is a configuration that has been checked.
type Config struct {
	Enabled           bool
	IgnoredGPUIDs     []string
	FingerprintPeriod time.Duration
	GroupBy           GroupBy
	// PrometheusAddress is host:port, or empty for none.
	PrometheusAddress string
	// DeviceNodes tells to hand /dev nodes to tasks.
	DeviceNodes bool
	Health      HealthConfig
}

// HealthConfig says when a GPU counts as well.
type HealthConfig struct {
	// Enabled tells to judge; without it every GPU that NVML lists is healthy.
	Enabled bool
	// Interval is how often the GPUs are looked at.
	Interval time.Duration
	// Grace is how long trouble that may pass (a call that fails or hangs, NVML
	// away, the fabric not ready) must last before it counts.
	Grace time.Duration
	// HealthyAfter is how long all must be well before a GPU counts as healthy
	// again. It doubles each time the GPU falls ill again within an hour.
	HealthyAfter time.Duration
	// XIDRecovery is how long after an XID or a double-bit error a GPU that
	// otherwise looks well stays unhealthy. 0 is until the plugin restarts or
	// the GPU has gone and come back, as after a reset.
	XIDRecovery time.Duration
	// IgnoredXIDs are errors that a program causes, rather than the GPU.
	IgnoredXIDs []uint64
	// CallTimeout is how long a reading may take before the GPU counts as hung.
	CallTimeout time.Duration
}

// DefaultConfig is what holds for options that are not set.
//
// The ignored XIDs are those that NVIDIA's own plugins ignore: graphics engine
// exception (13), page fault (31), channel errors (43, 45), video processor
// (68), context switch (109).
func DefaultConfig() Config {
	return Config{
		Enabled:           true,
		FingerprintPeriod: time.Minute,
		GroupBy:           GroupByNode,
		DeviceNodes:       true,
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

// rawConfig is the config block as Nomad decodes it.
type rawConfig struct {
	Enabled           bool       `codec:"enabled"`
	IgnoredGPUIDs     []string   `codec:"ignored_gpu_ids"`
	FingerprintPeriod string     `codec:"fingerprint_period"`
	GroupBy           string     `codec:"group_by"`
	PrometheusAddress string     `codec:"prometheus_address"`
	DeviceNodes       bool       `codec:"device_nodes"`
	Health            *rawHealth `codec:"health"`
}

type rawHealth struct {
	Enabled      bool   `codec:"enabled"`
	Interval     string `codec:"interval"`
	Grace        string `codec:"grace"`
	HealthyAfter string `codec:"healthy_after"`
	XIDRecovery  string `codec:"xid_recovery"`
	IgnoredXIDs  *[]any `codec:"ignored_xids"`
	CallTimeout  string `codec:"call_timeout"`
}

// decodeConfig reads what Nomad passes. All mistakes are told at once, each
// with the name of its option.
func decodeConfig(packed []byte) (Config, error) {
	c := DefaultConfig()
	if len(packed) == 0 {
		return c, nil
	}
	var raw rawConfig
	if err := base.MsgPackDecode(packed, &raw); err != nil {
		return c, fmt.Errorf("reading the plugin configuration: %w", err)
	}
	c.Enabled, c.DeviceNodes = raw.Enabled, raw.DeviceNodes

	var errs []error
	c.IgnoredGPUIDs = raw.IgnoredGPUIDs
	for _, id := range raw.IgnoredGPUIDs {
		if !strings.HasPrefix(id, "GPU-") && !strings.HasPrefix(id, "MIG-") || strings.ContainsFunc(id, unicode.IsSpace) {
			errs = append(errs, fmt.Errorf("ignored_gpu_ids: %q is not a UUID as nvidia-smi -L shows them, GPU-… or MIG-…", id))
		}
	}
	duration(&errs, "fingerprint_period", raw.FingerprintPeriod, time.Second, &c.FingerprintPeriod)
	if raw.GroupBy != "" {
		c.GroupBy = GroupBy(raw.GroupBy)
		if !slices.Contains(groupings, c.GroupBy) {
			errs = append(errs, fmt.Errorf("group_by: %q is none of %q", raw.GroupBy, groupings))
		}
	}
	if c.PrometheusAddress = raw.PrometheusAddress; c.PrometheusAddress != "" {
		if err := checkAddress(c.PrometheusAddress); err != nil {
			errs = append(errs, fmt.Errorf("prometheus_address: %w", err))
		}
	}
	if h := raw.Health; h != nil {
		c.Health.Enabled = h.Enabled
		duration(&errs, "health.interval", h.Interval, 100*time.Millisecond, &c.Health.Interval)
		duration(&errs, "health.grace", h.Grace, 0, &c.Health.Grace)
		duration(&errs, "health.healthy_after", h.HealthyAfter, 0, &c.Health.HealthyAfter)
		duration(&errs, "health.xid_recovery", h.XIDRecovery, 0, &c.Health.XIDRecovery)
		duration(&errs, "health.call_timeout", h.CallTimeout, 100*time.Millisecond, &c.Health.CallTimeout)
		if h.IgnoredXIDs != nil {
			c.Health.IgnoredXIDs = nil
			for _, x := range *h.IgnoredXIDs {
				n, err := xidNumber(x)
				if err != nil {
					errs = append(errs, fmt.Errorf("health.ignored_xids: %w", err))
					continue
				}
				c.Health.IgnoredXIDs = append(c.Health.IgnoredXIDs, n)
			}
		}
	}
	return c, errors.Join(errs...)
}

// xidNumber takes what HCL calls a number.
func xidNumber(x any) (uint64, error) {
	switch n := x.(type) {
	case uint64:
		return n, nil
	case int64:
		if n >= 0 {
			return uint64(n), nil
		}
	}
	return 0, fmt.Errorf("%v is not a number of an XID", x)
}

// checkAddress looks at the form only: a name need not be known yet.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: the port is not in 1..65535", address)
	}
	return nil
}

// duration reads an option that may be left out.
func duration(errs *[]error, name, text string, least time.Duration, to *time.Duration) {
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		*errs = append(*errs, fmt.Errorf("%s: %w", name, err))
	case d < least:
		*errs = append(*errs, fmt.Errorf("%s: %s is less than %s", name, d, least))
	default:
		*to = d
	}
}
