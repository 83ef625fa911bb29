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

	"github.com/kolo-nomad/kolo/e2e/nvmlstub"
)

// envOther names a nomad-device-nvidia binary to measure beside.
const envOther = "KOLO_NOMAD_DEVICE_NVIDIA"

// cost is what a plugin takes.
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

// What the first fingerprint and one reading per second cost on an HGX H100, in
// NVML calls, CPU time and memory. The calls are asserted; the rest is printed,
// for it depends on the machine.
func TestCost(t *testing.T) {
	plugin, err := binary()
	must.NoError(t, err)
	ours := measure(t, plugin, map[string]any{"enabled": true, "device_nodes": true})
	t.Logf("%-22s %s", pluginName, ours)
	must.Between(t, 0.8, ours.statsRate, 1.2)
	// Five calls a second for each GPU, nine more every five seconds, and the
	// regular look at everything.
	must.Less(t, 80.0, ours.callRate)
	if other := os.Getenv(envOther); other != "" {
		theirs := measure(t, other, map[string]any{"enabled": true, "ignored_gpu_ids": []string{}, "fingerprint_period": "1m"})
		t.Logf("%-22s %s", filepath.Base(other), theirs)
		must.Less(t, theirs.callRate, ours.callRate)
	} else {
		t.Logf("%s names no nomad-device-nvidia to compare with", envOther)
	}
}

func (c cost) String() string {
	return fmt.Sprintf("first fingerprint: %d NVML calls, %s after start, %s CPU; "+
		"then %.1f NVML calls/s, %s CPU per second, %.1f MiB resident (%.1f statistics/s over %.0f s)",
		c.firstCalls, c.firstTime.Round(time.Millisecond), c.firstCPU.Round(time.Millisecond), c.callRate, c.cpuRate,
		float64(c.residentKiB)/1024, c.statsRate, c.seconds)
}

// measure runs a plugin as Nomad does: fingerprint, and statistics each second.
func measure(t *testing.T, path string, config map[string]any) cost {
	t.Helper()
	hw := nvmlstub.New(t, "hgx-h100")
	begin := time.Now()
	p, pid := connect(t, path, config, hw.Env())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	prints, err := p.Fingerprint(ctx)
	must.NoError(t, err)
	first := <-prints
	must.NoError(t, first.Error)
	must.Len(t, 8, first.Devices[0].Devices)
	var c cost
	c.firstTime, c.firstCalls, c.firstCPU = time.Since(begin), hw.Calls(), cpuTime(t, pid)
	go func() {
		for range prints { // further ones are not expected, but must not block
		}
	}()

	stats, err := p.Stats(ctx, time.Second)
	must.NoError(t, err)
	for range 3 { // let it settle
		must.NoError(t, (<-stats).Error)
	}
	from, calls, cpu, n := time.Now(), hw.Calls(), cpuTime(t, pid), 0
	for time.Since(from) < 10*time.Second {
		must.NoError(t, (<-stats).Error)
		n++
	}
	c.seconds = time.Since(from).Seconds()
	c.callRate = float64(hw.Calls()-calls) / c.seconds
	c.cpuRate = time.Duration(float64(cpuTime(t, pid)-cpu) / c.seconds).Round(10 * time.Microsecond)
	c.statsRate = float64(n) / c.seconds
	c.residentKiB = resident(t, pid)
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

// cpuTime is what the kernel has counted for the threads of a process.
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
