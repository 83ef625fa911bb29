// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/device/inventory"
	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// freeAddress returns an address that no one listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	must.NoError(t, l.Close())
	return l.Addr().String()
}

// scrape waits until metrics are served, and returns them.
func scrape(t *testing.T, address string) string {
	t.Helper()
	var body []byte
	must.Wait(t, wait.InitialSuccess(
		wait.ErrorFunc(func() error {
			resp, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return err // not listening yet
			}
			defer resp.Body.Close()
			must.Eq(t, http.StatusOK, resp.StatusCode)
			body, err = io.ReadAll(resp.Body)
			return err
		}),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
	return string(body)
}

// serveMachine runs a monitor and serves its metrics.
func serveMachine(t *testing.T, hw *nvmltest.Machine, change func(*monitor.Config)) (address string, m *monitor.Monitor) {
	t.Helper()
	hw.Setenv()
	cfg := monitor.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	log := hclog.NewNullLogger()
	lib := nvml.New(nvml.Options{Library: hw.Library(), Root: hw.Root()})
	m = monitor.New(cfg, monitor.Options{
		NVML:      nvml.Guard(lib, cfg.Health.CallTimeout),
		StableIDs: inventory.OpenStableIDs(hw.Root(), log),
		EventWait: 20 * time.Millisecond,
	}, log)
	address = freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	running.Go(func() { Serve(ctx, address, 20*time.Millisecond, m, log) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return address, m
}

func TestMetrics(t *testing.T) {
	hw := nvmltest.New(t, "mig-a100")
	hw.Set(0, "throttle", "4")
	address, m := serveMachine(t, hw, func(c *monitor.Config) {
		c.Health.Interval, c.Health.Grace, c.Health.HealthyAfter = 100*time.Millisecond, 0, 0
	})
	<-m.Ready()
	hw.Lose(1)
	for {
		v, changed := m.Latest()
		if !v.Health[hw.UUIDs()[1]].Healthy {
			break
		}
		<-changed
	}
	body := scrape(t, address)
	const gpu = `gpu="0",model="NVIDIA A100-SXM4-40GB"`
	for _, line := range []string{
		`nvtopo_gpu_power_watts{` + gpu + `,uuid="GPU-f4000000-0000-4000-8000-000000000000"} 51.89`,
		`nvtopo_gpu_throttled{` + gpu + `,reason="power cap",uuid="GPU-f4000000-0000-4000-8000-000000000000"} 1`,
		`nvtopo_gpu_throttled{` + gpu + `,reason="sync boost",uuid="GPU-f4000000-0000-4000-8000-000000000000"} 0`,
		`nvtopo_gpu_reset_pending{` + gpu + `,uuid="GPU-f4000000-0000-4000-8000-000000000000"} 0`,
		`nvtopo_device_healthy{group="NVIDIA A100-SXM4-40GB",uuid="GPU-f4000000-0000-4000-8000-000000000001"} 0`,
		`nvtopo_device_unhealthy_info{group="NVIDIA A100-SXM4-40GB",reason="the GPU has fallen off the bus",uuid="GPU-f4000000-0000-4000-8000-000000000001"} 1`,
		`nvtopo_mig_memory_used_bytes{parent="GPU-f4000000-0000-4000-8000-000000000000",profile="1g.5gb",uuid="MIG-f4000000-0000-5000-8000-000000000006"} 1.3631488e+07`,
		`nvtopo_mig_memory_total_bytes{parent="GPU-f4000000-0000-4000-8000-000000000000",profile="1g.5gb",uuid="MIG-f4000000-0000-5000-8000-000000000006"} 5.100273664e+09`,
	} {
		must.StrContains(t, body, line+"\n")
	}
	must.StrNotContains(t, body, `nvtopo_gpu_power_watts{gpu="1"`)
	must.Eq(t, 8, strings.Count(body, "nvtopo_device_healthy{"))
	must.Eq(t, 1, strings.Count(body, "nvtopo_device_unhealthy_info{"))
}

// Names, units, help and types follow Prometheus' conventions, and everything that
// is measured is exported.
func TestMetricsFollowTheConventions(t *testing.T) {
	address, m := serveMachine(t, nvmltest.New(t, "hgx-h100"), nil)
	for range 2 { // the second reading has rates
		_, err := m.Measure(t.Context(), 0)
		must.NoError(t, err)
	}
	body := scrape(t, address)
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	must.NoError(t, err)
	must.SliceEmpty(t, problems)
	docs, err := os.ReadFile("../../docs/reference/metrics.md")
	must.NoError(t, err)
	for _, g := range gauges {
		name := strings.Split(g.desc.String(), `"`)[1]
		must.StrContains(t, string(docs), "`"+name+"`")
		must.Eq(t, 8, strings.Count(body, "\n"+name+"{"), must.Sprint(name))
	}
	must.Eq(t, 8*len(nvml.ThrottleReasons()), strings.Count(body, "\nnvtopo_gpu_throttled{"))
}

// A scrape while a GPU hangs is answered, with the GPU's health.
func TestMetricsWhileAGPUHangs(t *testing.T) {
	hw := nvmltest.New(t, "hgx-h100")
	address, _ := serveMachine(t, hw, func(c *monitor.Config) {
		c.Health.Interval, c.Health.Grace, c.Health.CallTimeout = 100*time.Millisecond, 0, 300*time.Millisecond
	})
	must.StrContains(t, scrape(t, address), "nvtopo_device_healthy")
	hw.Hang(2)
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool {
			body := scrape(t, address)
			return strings.Count(body, "\nnvtopo_gpu_power_watts{") == 7 &&
				strings.Contains(body, `reason="the GPU does not answer: the call does not return",uuid="`+hw.UUIDs()[2])
		}),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
	hw.Return(2)
}
