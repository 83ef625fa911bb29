// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/sandbox/isolation"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

func TestPluginConfig(t *testing.T) {
	c := Config{BindPaths: []string{"/", "usr", "/data/"}, FingerprintPeriod: "1s", FingerprintTimeout: "long", ExecutorLogLevel: "loud",
		Devices: []string{"/dev/infiniband/*", "/dev/../etc/shadow", "/dev/*", "/dev/nvidia*"}, Memlock: "64", JobMappingDir: "jobs"}
	var bad problem.List
	must.True(t, errors.As(c.complete(), &bad))
	must.Eq(t, []string{
		`executor_log_level = "loud": must be "trace", "debug", "info", "warn", "error" or "off"`,
		`bind_paths[0] = "/": must be an absolute path below /`,
		`bind_paths[1] = "usr": must be an absolute path below /`,
		`devices[1] = "/dev/../etc/shadow": must be a path below /dev, with no . or .. in it`,
		`devices[2] = "/dev/*": must begin with a name after /dev/, as /dev/infiniband/* does`,
		`devices[3] = "/dev/nvidia*": lists GPUs (/dev/nvidia0); tasks get those that they reserve with a device block`,
		`job_mapping_dir = "jobs": must be an absolute path`,
		`memlock = "64": must be "unlimited" or a whole number with its unit, such as "64GiB" or "512MiB"`,
		`fingerprint_period = "1s": must be at least 10s`,
		`fingerprint_timeout = "long": not a duration; write it like "90s" or "10m"`,
	}, bad.Strings())
	good := Config{}
	must.NoError(t, good.complete())
	must.Eq(t, "python3", good.Python)
	must.Eq(t, isolation.DefaultBindPaths, good.BindPaths)

	// What is configured comes on top; to name a default again changes nothing.
	more := Config{BindPaths: []string{"/usr/", "/srv/venv/"}, ExecutorLogLevel: "off"}
	must.NoError(t, more.complete())
	must.Eq(t, append(slices.Clone(isolation.DefaultBindPaths), "/srv/venv"), more.BindPaths)
}

func TestSetConfigNamesThePlugin(t *testing.T) {
	h := newHarness(t, noIsolation())
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, &Config{DeniedHostUids: "9-1"}))
	must.ErrorContains(t, h.SetConfig(&base.Config{PluginConfig: data}), "denied_host_uids")
}
