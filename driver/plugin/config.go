// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Config is the plugin's configuration: the `config` of the agent
// configuration's `plugin "nomad-driver-horovod"` block.
type Config struct {
	// Enabled is true unless set otherwise.
	Enabled bool `codec:"enabled"`
	// AllowIsolationNone lets jobs ask for isolation = "none", which gives them
	// the host as raw_exec does. Off by default, like raw_exec.
	AllowIsolationNone bool `codec:"allow_isolation_none"`
	// AllowRoot lets isolated tasks run as user 0 or with group 0. They have no
	// capabilities then either, but own every file of root's that they see.
	AllowRoot bool `codec:"allow_root"`
	// Python is asked at fingerprint time which Horovod the host has. It does
	// not decide what tasks run. Default "python3".
	Python string `codec:"python"`
	// FingerprintPeriod is the time between two looks at the host's Horovod,
	// FingerprintTimeout how long one may take: importing a framework is slow.
	// Defaults "5m" and "1m".
	FingerprintPeriod  string `codec:"fingerprint_period"`
	FingerprintTimeout string `codec:"fingerprint_timeout"`
	// Interface is the network interface of tasks that name none. Empty leaves
	// the choice to the agent.
	Interface string `codec:"interface"`
	// BindPaths are host paths that a task with isolation = "exec" sees besides
	// defaultBindPaths, read-only and under the same name. Complete puts those
	// in front: without the host's libraries not even the agent starts.
	BindPaths []string `codec:"bind_paths"`
	// NoPivotRoot is for hosts whose root file system is a RAM disk.
	NoPivotRoot bool `codec:"no_pivot_root"`
	// DeniedHostUids and DeniedHostGids are ranges ("0,1000-2000") that the
	// task's `user` must not fall into.
	DeniedHostUids string `codec:"denied_host_uids"`
	DeniedHostGids string `codec:"denied_host_gids"`
	// ExecutorLogLevel is that of executor.out, which lies beside the
	// allocation's directory, see privateDirs.
	// Default "info".
	ExecutorLogLevel string `codec:"executor_log_level"`

	period, timeout time.Duration
}

// complete fills in defaults and says what is wrong.
func (c *Config) complete() error {
	var p problems
	orDefault(&c.Python, "python3")
	orDefault(&c.ExecutorLogLevel, "info")
	if hclog.LevelFromString(c.ExecutorLogLevel) == hclog.NoLevel {
		p.addf(`executor_log_level = %q: must be "trace", "debug", "info", "warn", "error" or "off"`, c.ExecutorLogLevel)
	}
	for i, path := range c.BindPaths {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			p.addf("bind_paths[%d] = %q: must be an absolute path below /", i, path)
		}
		c.BindPaths[i] = filepath.Clean(path)
	}
	more := slices.DeleteFunc(c.BindPaths, func(path string) bool { return slices.Contains(defaultBindPaths, path) })
	c.BindPaths = slices.Concat(defaultBindPaths, more)
	c.period = duration(&p, "fingerprint_period", c.FingerprintPeriod, 5*time.Minute, 10*time.Second)
	c.timeout = duration(&p, "fingerprint_timeout", c.FingerprintTimeout, time.Minute, time.Second)
	return p.err()
}

// TaskConfig is the `config` of a task. Numbers are decoded as floats so that
// 1.5 slots can be refused by name.
type TaskConfig struct {
	// Command and Args start one slot, that is one training process.
	Command string   `codec:"command"`
	Args    []string `codec:"args"`
	// Isolation is "exec" (default) or "none".
	Isolation string `codec:"isolation"`

	// Slots is the number of training processes of one allocation; by default
	// one per reserved GPU, and one where none is reserved.
	Slots *float64 `codec:"slots"`
	// NP processes start the first ring (default: MinNP), MinNP (default 1)
	// are enough for later ones, MaxNP (default: no limit) is the most.
	NP    *float64 `codec:"np"`
	MinNP *float64 `codec:"min_np"`
	MaxNP *float64 `codec:"max_np"`

	// ElasticTimeout bounds the wait for NP or MinNP processes ("10m"). Settle
	// is the wait for more newcomers before a ring re-forms ("1s").
	// GlooTimeout is Horovod's for a peer that has vanished ("30s").
	// FinishTimeout bounds the wait for the others once one slot has finished
	// ("1m"). LeaveTimeout ("25s") is the time to leave the ring when something
	// else than Nomad signals the agent; when Nomad stops the task, the job's
	// kill_timeout counts, which Nomad's default of 5s makes short.
	ElasticTimeout string `codec:"elastic_timeout"`
	Settle         string `codec:"settle"`
	GlooTimeout    string `codec:"gloo_timeout"`
	FinishTimeout  string `codec:"finish_timeout"`
	// StallTimeout is how long a script that reports steps may make none before
	// the ring is formed again without the processes that hang; empty: for ever.
	StallTimeout string `codec:"stall_timeout"`
	LeaveTimeout string `codec:"leave_timeout"`

	// ResetLimit is the most rings after the first (default 0: no limit).
	ResetLimit *float64 `codec:"reset_limit"`
	// SlotRestarts is how often a failed slot is started again in place before
	// its allocation is given back to Nomad (default 3).
	SlotRestarts *float64 `codec:"slot_restarts"`
	// OnRingLost says what to do when no process that holds the training state
	// is left: "fail" (default) or "restart" from the script's own checkpoint.
	OnRingLost string `codec:"on_ring_lost"`

	// Service names the Nomad service by which workers find each other. Port
	// is the label of the port it is on; by default the group's only port, else
	// "kolo".
	Service string `codec:"service"`
	Port    string `codec:"port"`
	// Interface is the network interface for training traffic.
	Interface string `codec:"interface"`

	// Horovod holds Horovod's own settings.
	Horovod *Knobs `codec:"horovod"`
}

func orDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// duration reads a setting, noting a problem when it is no duration or less
// than least.
func duration(p *problems, field, value string, byDefault, least time.Duration) time.Duration {
	if value == "" {
		return byDefault
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		p.addf("%s = %q: not a duration; write it like \"90s\" or \"10m\"", field, value)
		return byDefault
	case d < least:
		p.addf("%s = %q: must be at least %s", field, value, least)
		return byDefault
	}
	return d
}

// count reads a whole number, noting a problem when it is none or less than
// least.
func count(p *problems, field string, value *float64, byDefault, least int) int {
	if value == nil {
		return byDefault
	}
	n := int(*value)
	switch {
	case *value != float64(n):
		p.addf("%s = %v: must be a whole number", field, *value)
		return byDefault
	case n < least:
		p.addf("%s = %d: must be at least %d", field, n, least)
		return byDefault
	}
	return n
}

// choice notes a problem when value is none of the choices; the first is the
// default.
func choice(p *problems, field, value string, choices ...string) string {
	if value == "" {
		return choices[0]
	}
	if !slices.Contains(choices, value) {
		p.addf("%s = %q: must be \"%s\"", field, value, strings.Join(choices, `" or "`))
		return choices[0]
	}
	return value
}
