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

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
)

// config is a checked configuration.
type config struct {
	Enabled bool
	// PrometheusAddress is host:port, or empty to serve no metrics.
	PrometheusAddress string
	// DeviceNodes states whether tasks get the /dev nodes.
	DeviceNodes bool
	Monitor     monitor.Config
}

// defaultConfig returns the defaults of options that are not set.
func defaultConfig() config {
	return config{Enabled: true, DeviceNodes: true, Monitor: monitor.DefaultConfig()}
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

// decodeConfig decodes Nomad's configuration. It reports all errors at once, each
// with the name of its option.
func decodeConfig(packed []byte) (config, error) {
	c := defaultConfig()
	if len(packed) == 0 {
		return c, nil
	}
	var raw rawConfig
	if err := base.MsgPackDecode(packed, &raw); err != nil {
		return c, fmt.Errorf("reading the plugin configuration: %w", err)
	}
	c.Enabled, c.DeviceNodes, c.PrometheusAddress = raw.Enabled, raw.DeviceNodes, raw.PrometheusAddress

	var errs []error
	m := &c.Monitor
	m.IgnoredGPUIDs = raw.IgnoredGPUIDs
	for _, id := range raw.IgnoredGPUIDs {
		if !strings.HasPrefix(id, "GPU-") && !strings.HasPrefix(id, "MIG-") || strings.ContainsFunc(id, unicode.IsSpace) {
			errs = append(errs, fmt.Errorf("ignored_gpu_ids: %q is not a UUID as nvidia-smi -L shows them, GPU-… or MIG-…", id))
		}
	}
	duration(&errs, "fingerprint_period", raw.FingerprintPeriod, time.Second, &m.FingerprintPeriod)
	if raw.GroupBy != "" {
		m.GroupBy = inventory.GroupBy(raw.GroupBy)
		if known := inventory.Groupings(); !slices.Contains(known, m.GroupBy) {
			errs = append(errs, fmt.Errorf("group_by: %q is none of %q", raw.GroupBy, known))
		}
	}
	if c.PrometheusAddress != "" {
		if err := checkAddress(c.PrometheusAddress); err != nil {
			errs = append(errs, fmt.Errorf("prometheus_address: %w", err))
		}
	}
	if raw.Health != nil {
		raw.Health.decode(&errs, &m.Health)
	}
	return c, errors.Join(errs...)
}

// decode reads the health block.
func (h *rawHealth) decode(errs *[]error, c *monitor.HealthConfig) {
	c.Enabled = h.Enabled
	duration(errs, "health.interval", h.Interval, 100*time.Millisecond, &c.Interval)
	duration(errs, "health.grace", h.Grace, 0, &c.Grace)
	duration(errs, "health.healthy_after", h.HealthyAfter, 0, &c.HealthyAfter)
	duration(errs, "health.xid_recovery", h.XIDRecovery, 0, &c.XIDRecovery)
	duration(errs, "health.call_timeout", h.CallTimeout, 100*time.Millisecond, &c.CallTimeout)
	if h.IgnoredXIDs == nil {
		return
	}
	c.IgnoredXIDs = nil
	for _, x := range *h.IgnoredXIDs {
		n, err := xidNumber(x)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("health.ignored_xids: %w", err))
			continue
		}
		c.IgnoredXIDs = append(c.IgnoredXIDs, n)
	}
}

// xidNumber converts a number of HCL as Nomad decodes it.
func xidNumber(x any) (uint64, error) {
	switch n := x.(type) {
	case uint64:
		return n, nil
	case int64:
		if n >= 0 {
			return uint64(n), nil
		}
	}
	return 0, fmt.Errorf("%v is not the number of an XID", x)
}

// checkAddress checks only the format, because a name need not resolve yet.
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

// duration parses an option that may be empty.
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
