// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// freeAddress is one that nobody listens on.
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

func TestMetrics(t *testing.T) {
	address := freeAddress(t)
	hw := nvmltest.New(t, "mig-a100")
	hw.Set(0, "throttle", "4")
	d := start(t, hw, map[string]any{"prometheus_address": address, "health": quick})
	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	message(t, ch)
	hw.Lose(1)
	for message(t, ch) != nil {
		if _, err := d.Reserve(hw.UUIDs()[1:]); err != nil {
			break
		}
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

// Names, units, help and types are as Prometheus wants them, and everything that
// is measured is there.
func TestMetricsFollowTheConventions(t *testing.T) {
	address := freeAddress(t)
	d := start(t, nvmltest.New(t, "hgx-h100"), map[string]any{"prometheus_address": address})
	ch, err := d.Stats(t.Context(), 100*time.Millisecond)
	must.NoError(t, err)
	<-ch
	<-ch // now there are rates
	body := scrape(t, address)
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	must.NoError(t, err)
	must.SliceEmpty(t, problems)
	docs, err := os.ReadFile("../../docs/device.md")
	must.NoError(t, err)
	for _, g := range gauges {
		name := strings.Split(g.desc.String(), `"`)[1]
		must.StrContains(t, string(docs), "`"+name+"`")
		must.Eq(t, 8, strings.Count(body, "\n"+name+"{"), must.Sprint(name))
	}
	must.Eq(t, 8*len(throttles), strings.Count(body, "\nnvtopo_gpu_throttled{"))
}

// A scrape while a GPU hangs is answered, with the GPU's health.
func TestMetricsWhileAGPUHangs(t *testing.T) {
	address := freeAddress(t)
	hw := nvmltest.New(t, "hgx-h100")
	start(t, hw, map[string]any{"prometheus_address": address, "health": map[string]any{
		"enabled": true, "interval": "100ms", "grace": "0s", "call_timeout": "300ms",
	}}).started()
	must.StrContains(t, scrape(t, address), "nvtopo_device_healthy")
	hw.Hang(2)
	must.Wait(t, wait.InitialSuccess(
		wait.BoolFunc(func() bool {
			body := scrape(t, address)
			return strings.Count(body, "\nnvtopo_gpu_power_watts{") == 7 &&
				strings.Contains(body, `reason="the GPU does not answer: the call does not come back",uuid="`+hw.UUIDs()[2])
		}),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
	hw.Return(2)
}

// logged is a place for a log that may be read meanwhile.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An address that is taken is said, with the option's name, and keeps no devices
// from Nomad. It is taken up once it is free, and let go of at the end.
func TestMetricsAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	address := taken.Addr().String()
	var log logged
	d := New(hclog.New(&hclog.LoggerOptions{Output: &log}), Options{NVML: library(t, nvmltest.New(t, "one-t4")), Root: t.TempDir()})
	d.eventWait, d.listenAgain = 20*time.Millisecond, 20*time.Millisecond
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: pack(t, map[string]any{
		"enabled": true, "prometheus_address": address,
	})}))
	t.Cleanup(d.Close)
	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	must.Len(t, 1, message(t, ch).Devices)
	says := func(text string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(
			wait.BoolFunc(func() bool { return strings.Contains(log.String(), text) }),
			wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
		))
	}
	says("prometheus_address: metrics cannot be served yet: address=" + address)
	says("address already in use")
	must.NoError(t, taken.Close())
	must.StrContains(t, scrape(t, address), "nvtopo_device_healthy")
	must.Eq(t, 1, strings.Count(log.String(), "cannot be served"), must.Sprint("said once"))

	d.Close()
	again, err := net.Listen("tcp", address)
	must.NoError(t, err, must.Sprint("the address is free once the plugin has ended"))
	must.NoError(t, again.Close())
}
