// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e || gpu

package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
)

// envOther names a nomad-device-nvidia binary to compare with.
const envOther = "KOLO_NOMAD_DEVICE_NVIDIA"

// cost is the cost of a plugin. The calls are calls of NVML, if counted.
type cost struct {
	firstCalls  uint64
	firstCPU    time.Duration
	firstTime   time.Duration
	callRate    float64
	cpuRate     time.Duration
	residentKiB int
	statsRate   float64
	seconds     float64
}

// measureBoth measures the plugin at path and then, if envOther names one, the other. Calls
// returns how many calls were made to the NVML of the environment; it is nil if none are
// counted. The result is printed, because it depends on the machine.
func measureBoth(t *testing.T, path string, env []string, calls func() uint64) (ours cost, theirs *cost) {
	t.Helper()
	ours = measure(t, path, map[string]any{"enabled": true, "device_nodes": true}, env, calls)
	other := os.Getenv(envOther)
	if other == "" {
		t.Logf("%s names no nomad-device-nvidia to compare with", envOther)
		return ours, nil
	}
	c := measure(t, other, map[string]any{"enabled": true, "ignored_gpu_ids": []string{}, "fingerprint_period": "1m"}, env, calls)
	return ours, &c
}

func (c cost) String() string {
	first, then := "", ""
	if c.firstCalls > 0 {
		first, then = fmt.Sprintf("%d NVML calls, ", c.firstCalls), fmt.Sprintf("%.1f NVML calls/s, ", c.callRate)
	}
	return fmt.Sprintf("first fingerprint: %s%s after start, %s CPU; then %s%s CPU per second, %.1f MiB resident (%.1f statistics/s over %.0f s)",
		first, c.firstTime.Round(time.Millisecond), c.firstCPU.Round(time.Millisecond),
		then, c.cpuRate, float64(c.residentKiB)/1024, c.statsRate, c.seconds)
}

// measure runs a plugin as Nomad does: fingerprint, and statistics each second.
// It has ended before the next one is measured.
func measure(t *testing.T, path string, config map[string]any, env []string, calls func() uint64) (c cost) {
	t.Helper()
	if calls == nil {
		calls = func() uint64 { return 0 }
	}
	t.Run(filepath.Base(path), func(t *testing.T) {
		begin, before := time.Now(), calls()
		p, pid := connect(t, path, config, env)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		prints, err := p.Fingerprint(ctx)
		must.NoError(t, err)
		first := <-prints
		must.NoError(t, first.Error)
		must.SliceNotEmpty(t, first.Devices)
		c.firstTime, c.firstCalls, c.firstCPU = time.Since(begin), calls()-before, cpuTime(t, pid)
		go func() {
			for range prints { // further ones are not expected, but must not block
			}
		}()

		stats, err := p.Stats(ctx, time.Second)
		must.NoError(t, err)
		for range 3 { // let it settle
			must.NoError(t, (<-stats).Error)
		}
		from, cpu, n := time.Now(), cpuTime(t, pid), 0
		before = calls()
		for time.Since(from) < 10*time.Second {
			must.NoError(t, (<-stats).Error)
			n++
		}
		c.seconds = time.Since(from).Seconds()
		c.callRate = float64(calls()-before) / c.seconds
		c.cpuRate = time.Duration(float64(cpuTime(t, pid)-cpu) / c.seconds).Round(10 * time.Microsecond)
		c.statsRate = float64(n) / c.seconds
		c.residentKiB = resident(t, pid)
		t.Log(c)
	})
	must.Positive(t, c.seconds, must.Sprintf("%s was not measured", path))
	return c
}

// connect starts a plugin as Nomad does, with a configuration.
func connect(t *testing.T, path string, config map[string]any, env []string) (p device.DevicePlugin, pid int) {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), env...)
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  base.Handshake,
		Plugins:          map[string]goplugin.Plugin{base.PluginTypeDevice: &device.PluginDevice{}},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	rpc, err := client.Client()
	must.NoError(t, err)
	raw, err := rpc.Dispense(base.PluginTypeDevice)
	must.NoError(t, err)
	p = raw.(device.DevicePlugin)
	var packed []byte
	must.NoError(t, base.MsgPackEncode(&packed, config))
	must.NoError(t, p.SetConfig(&base.Config{PluginConfig: packed}))
	return p, cmd.Process.Pid
}

// cpuTime returns the CPU time that the kernel has counted for the threads of a process.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	must.NoError(t, err)
	var sum time.Duration
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended since
		}
		must.NoError(t, err)
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		must.NoError(t, err)
		sum += time.Duration(ns)
	}
	return sum
}

func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(v)[0])
			must.NoError(t, err)
			return kib
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
