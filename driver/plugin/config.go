// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// Config is the plugin's configuration: the `config` of its `plugin` block in the
// agent configuration.
type Config struct {
	// Enabled is true unless set otherwise.
	Enabled bool `codec:"enabled"`
	// AllowIsolationNone lets jobs set isolation = "none", which gives them the host as
	// raw_exec does. Off by default, like raw_exec.
	AllowIsolationNone bool `codec:"allow_isolation_none"`
	// AllowRoot lets isolated tasks run as user 0 or with group 0. Even then they have no
	// capabilities, but they own every file of root's that they see.
	AllowRoot bool `codec:"allow_root"`
	// DynamicUsers makes Nomad give each isolated task that names no user a user of its
	// own, from the client's `users` block. True unless set otherwise.
	DynamicUsers bool `codec:"dynamic_users"`
	// PidsLimit bounds the processes and threads of an isolated task; 0 means the client's
	// own limit. The default is defaultPidsLimit.
	PidsLimit int `codec:"pids_limit"`
	// Python is the program whose installation of the framework the fingerprint reports. It
	// does not decide what tasks run. Default "python3".
	Python string `codec:"python"`
	// FingerprintPeriod is the time between two checks of the host's installation.
	// FingerprintTimeout bounds one check: importing a framework is slow. Defaults "5m" and
	// "1m".
	FingerprintPeriod  string `codec:"fingerprint_period"`
	FingerprintTimeout string `codec:"fingerprint_timeout"`
	// Interface is the network interface of tasks that name none. If empty, the agent
	// chooses.
	Interface string `codec:"interface"`
	// BindPaths are host paths that a task with isolation = "exec" sees in addition to
	// isolation.DefaultBindPaths, read-only and under the same name. complete prepends the
	// default paths, because without the host's libraries not even the agent starts.
	BindPaths []string `codec:"bind_paths"`
	// Devices are device nodes, or patterns of them, that a task with isolation = "exec"
	// gets in addition to those of its reserved GPUs; see isolation.CheckDevice.
	Devices []string `codec:"devices"`
	// Memlock is how much memory such a task may lock ("unlimited", "64GiB"), which fast
	// networks need. If empty, the Nomad client's limit applies.
	Memlock string `codec:"memlock"`
	// NoPivotRoot is for hosts whose root file system is a RAM disk.
	NoPivotRoot bool `codec:"no_pivot_root"`
	// DeniedHostUids and DeniedHostGids are ranges ("0,1000-2000") of IDs that the task's
	// `user` must not have.
	DeniedHostUids string `codec:"denied_host_uids"`
	DeniedHostGids string `codec:"denied_host_gids"`
	// JobMappingDir is the directory in which package jobmap lists the jobs of each GPU. If it
	// is empty, no list is kept.
	JobMappingDir string `codec:"job_mapping_dir"`
	// ExecutorLogLevel is the log level of executor.out, which lies next to the
	// allocation's directory, see package privatedirs. Default "info".
	ExecutorLogLevel string `codec:"executor_log_level"`

	period, timeout time.Duration
	memlock         uint64 // in bytes; 0: the client's limit
	// block is the name that messages use for the configuration's block.
	block string
}

// defaultPidsLimit is more than the threads of eight slots with sixteen data loaders each.
// It is half of a small machine's total (kernel.pid_max = 32768).
const defaultPidsLimit = 16384

// blockOf returns the name of a framework's block in the agent configuration, which
// contains the name of the binary.
func blockOf(framework string) string { return fmt.Sprintf("plugin %q", "nomad-driver-"+framework) }

// complete fills in defaults and returns an error if the configuration is invalid.
func (c *Config) complete() error {
	var p problem.List
	c.Python = cmp.Or(c.Python, "python3")
	c.ExecutorLogLevel = cmp.Or(c.ExecutorLogLevel, "info")
	if hclog.LevelFromString(c.ExecutorLogLevel) == hclog.NoLevel {
		p.Add("config.executor_log_level", c.ExecutorLogLevel, `must be "trace", "debug", "info", "warn", "error" or "off"`, "")
	}
	for i, path := range c.BindPaths {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			p.Add(fmt.Sprintf("config.bind_paths[%d]", i), path, "must be an absolute path below /", "")
		}
		c.BindPaths[i] = filepath.Clean(path)
	}
	more := slices.DeleteFunc(c.BindPaths, func(path string) bool { return slices.Contains(isolation.DefaultBindPaths, path) })
	c.BindPaths = slices.Concat(isolation.DefaultBindPaths, more)
	for i, pattern := range c.Devices {
		if err := isolation.CheckDevice(pattern); err != nil {
			p = append(p, problem.Of(fmt.Sprintf("config.devices[%d]", i), pattern, err))
		}
	}
	if c.JobMappingDir != "" && !filepath.IsAbs(c.JobMappingDir) {
		p.Add("config.job_mapping_dir", c.JobMappingDir, "must be an absolute path", "")
	}
	if c.PidsLimit < 0 {
		p.Add("config.pids_limit", c.PidsLimit, "must not be negative", "0 is no limit")
	}
	var err error
	if c.memlock, err = parseMemlock(c.Memlock); err != nil {
		p = append(p, problem.Of("config.memlock", c.Memlock, err))
	}
	p = append(p, settings.Read([]settings.Setting{
		settings.Time(&c.period, "fingerprint_period", 5*time.Minute, 10*time.Second, "time between two looks at the host's installation"),
		settings.Time(&c.timeout, "fingerprint_timeout", time.Minute, time.Second, "bound for one look"),
	}, map[string]any{"fingerprint_period": c.FingerprintPeriod, "fingerprint_timeout": c.FingerprintTimeout}, "config")...)
	return p.Err()
}

// Values of a task's isolation.
const (
	isolationExec = "exec"
	isolationNone = "none"
)

// bind sets the fields of a task's `config` that only this driver has to their defaults,
// and returns the settings that fill them.
func (pl *plan) bind() []settings.Setting {
	return []settings.Setting{
		settings.OneOf(&pl.isolation, "isolation", []string{isolationExec, isolationNone}, "namespaces of the task's own, or none"),
	}
}

// taskSettings returns the fields of a task's `config`, except for the framework's.
func taskSettings() []settings.Setting {
	return append(new(plan).bind(), taskconfig.Settings()...)
}
