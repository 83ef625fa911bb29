// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/isolation"
	"github.com/kolo-nomad/kolo/driver/settings"
)

// Config is the plugin's configuration: the `config` of its `plugin` block in the
// agent configuration.
type Config struct {
	// Enabled is true unless set otherwise.
	Enabled bool `codec:"enabled"`
	// AllowIsolationNone lets jobs ask for isolation = "none", which gives them
	// the host as raw_exec does. Off by default, like raw_exec.
	AllowIsolationNone bool `codec:"allow_isolation_none"`
	// AllowRoot lets isolated tasks run as user 0 or with group 0. They have no
	// capabilities then either, but own every file of root's that they see.
	AllowRoot bool `codec:"allow_root"`
	// Python is asked at fingerprint time which installation of the framework the
	// host has. It does not decide what tasks run. Default "python3".
	Python string `codec:"python"`
	// FingerprintPeriod is the time between two looks at the host's installation,
	// FingerprintTimeout how long one may take: importing a framework is slow.
	// Defaults "5m" and "1m".
	FingerprintPeriod  string `codec:"fingerprint_period"`
	FingerprintTimeout string `codec:"fingerprint_timeout"`
	// Interface is the network interface of tasks that name none. Empty leaves
	// the choice to the agent.
	Interface string `codec:"interface"`
	// BindPaths are host paths that a task with isolation = "exec" sees besides
	// isolation.DefaultBindPaths, read-only and under the same name. complete puts
	// those in front: without the host's libraries not even the agent starts.
	BindPaths []string `codec:"bind_paths"`
	// NoPivotRoot is for hosts whose root file system is a RAM disk.
	NoPivotRoot bool `codec:"no_pivot_root"`
	// DeniedHostUids and DeniedHostGids are ranges ("0,1000-2000") that the
	// task's `user` must not fall into.
	DeniedHostUids string `codec:"denied_host_uids"`
	DeniedHostGids string `codec:"denied_host_gids"`
	// ExecutorLogLevel is that of executor.out, which lies beside the
	// allocation's directory, see package privatedirs.
	// Default "info".
	ExecutorLogLevel string `codec:"executor_log_level"`

	period, timeout time.Duration
	// block is how messages name the block that the configuration is in.
	block string
}

// blockOf names the agent configuration's block for a framework: it is named after
// the binary.
func blockOf(framework string) string { return fmt.Sprintf("plugin %q", "nomad-driver-"+framework) }

// complete fills in defaults and states what is wrong.
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
	more := slices.DeleteFunc(c.BindPaths, func(path string) bool { return slices.Contains(isolation.DefaultBindPaths, path) })
	c.BindPaths = slices.Concat(isolation.DefaultBindPaths, more)
	p.add(settings.Read([]settings.Setting{
		settings.Time(&c.period, "fingerprint_period", 5*time.Minute, 10*time.Second, "time between two looks at the host's installation"),
		settings.Time(&c.timeout, "fingerprint_timeout", time.Minute, time.Second, "bound for one look"),
	}, map[string]any{"fingerprint_period": c.FingerprintPeriod, "fingerprint_timeout": c.FingerprintTimeout}, ""))
	return p.err()
}

// The values of a task's isolation.
const (
	isolationExec = "exec"
	isolationNone = "none"
)

// taskConfig is what the `config` of a task has, besides the settings of
// training and those of the framework.
type taskConfig struct {
	// Command and Args start one slot, that is one training process.
	Command string
	Args    []string
	// Isolation is "exec" (default) or "none".
	Isolation string
	// Service names the Nomad service by which agents find each other. Port
	// is the label of the port it is on; by default the group's only port, else
	// "kolo".
	Service string
	Port    string
	// Interface is the network interface for training traffic.
	Interface string
}

// bind sets every field to its default and returns the settings that fill them.
func (c *taskConfig) bind() []settings.Setting {
	return []settings.Setting{
		settings.Word(&c.Command, "command", "required", "program of one slot, looked up in the task's PATH"),
		settings.Words(&c.Args, "args", "its arguments"),
		settings.OneOf(&c.Isolation, "isolation", []string{isolationExec, isolationNone}, "namespaces of the task's own, or none"),
		settings.Word(&c.Service, "service", "required", "the Nomad service by which the agents find each other"),
		settings.Word(&c.Port, "port", "the only one, else kolo", "label of the service's port"),
		settings.Word(&c.Interface, "interface", "the one with the service's address", "network interface of training traffic"),
	}
}

// taskSettings are the fields of a task's `config`, those of the framework excepted.
func taskSettings() []settings.Setting {
	var c taskConfig
	var t settings.Training
	return append(c.bind(), t.Bind()...)
}

func orDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
