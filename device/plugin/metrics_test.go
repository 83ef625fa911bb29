// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// logged is a log that may be read while it is written.
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

// If the address is in use, that is logged with the option's name, and Nomad still
// gets the devices. The address is used once it is free, and released at the end.
func TestMetricsAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	address := taken.Addr().String()
	var log logged
	d := New(hclog.New(&hclog.LoggerOptions{Output: &log}), Options{NVML: library(nvmltest.New(t, "one-t4")), Root: t.TempDir()})
	d.eventWait, d.metricsRetry = 20*time.Millisecond, 20*time.Millisecond
	must.NoError(t, d.SetConfig(&base.Config{PluginConfig: pack(t, map[string]any{
		"enabled": true, "prometheus_address": address,
	})}))
	t.Cleanup(d.Close)
	ch, err := d.Fingerprint(t.Context())
	must.NoError(t, err)
	must.Len(t, 1, message(t, ch).Devices)
	logs := func(text string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(
			wait.BoolFunc(func() bool { return strings.Contains(log.String(), text) }),
			wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
		))
	}
	logs("prometheus_address: metrics cannot be served yet: address=" + address)
	logs("address already in use")
	must.NoError(t, taken.Close())
	must.Wait(t, wait.InitialSuccess(
		wait.ErrorFunc(func() error {
			resp, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return err // not listening yet
			}
			defer resp.Body.Close()
			must.Eq(t, http.StatusOK, resp.StatusCode)
			body, err := io.ReadAll(resp.Body)
			must.StrContains(t, string(body), "nvtopo_device_healthy")
			return err
		}),
		wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond),
	))
	must.Eq(t, 1, strings.Count(log.String(), "cannot be served"), must.Sprint("logged once"))

	d.Close()
	again, err := net.Listen("tcp", address)
	must.NoError(t, err, must.Sprint("the address is free once the plugin has ended"))
	must.NoError(t, again.Close())
}
