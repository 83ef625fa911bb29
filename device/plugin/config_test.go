// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/inventory"
)

func pack(t *testing.T, v any) []byte {
	t.Helper()
	var b []byte
	must.NoError(t, base.MsgPackEncode(&b, v))
	return b
}

func TestDecodeConfig(t *testing.T) {
	c, err := decodeConfig(nil)
	must.NoError(t, err)
	must.Eq(t, defaultConfig(), c)

	c, err = decodeConfig(pack(t, map[string]any{
		"enabled":            true,
		"ignored_gpu_ids":    []string{"GPU-1"},
		"fingerprint_period": "30s",
		"group_by":           "numa",
		"prometheus_address": "127.0.0.1:9835",
		"device_nodes":       false,
		"health": map[string]any{
			"enabled": true, "interval": "1s", "xid_recovery": "0s", "ignored_xids": []int{13},
		},
	}))
	must.NoError(t, err)
	want := defaultConfig()
	want.Monitor.IgnoredGPUIDs = []string{"GPU-1"}
	want.Monitor.FingerprintPeriod = 30 * time.Second
	want.Monitor.GroupBy = inventory.GroupByNUMA
	want.PrometheusAddress = "127.0.0.1:9835"
	want.DeviceNodes = false
	want.Monitor.Health.Interval = time.Second
	want.Monitor.Health.XIDRecovery = 0
	want.Monitor.Health.IgnoredXIDs = []uint64{13}
	must.Eq(t, want, c)
}

// The documentation has every option of the schema, with its default.
func TestOptionsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../docs/reference/device.md")
	must.NoError(t, err)
	top, health := map[string]any{}, map[string]any{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(health { )?(\\w+)(?: })?` \\| (?:`(.*?)`|none) \\|").FindAllStringSubmatch(string(docs), -1) {
		block, option, value := top, row[2], row[3]
		if row[1] != "" {
			block = health
		}
		switch {
		case value == "":
			block[option] = ""
		case option == "ignored_xids":
			var xids []int
			must.NoError(t, json.Unmarshal([]byte(value), &xids))
			block[option] = xids
		default:
			var v any
			must.NoError(t, json.Unmarshal([]byte(value), &v))
			block[option] = v
		}
	}
	schema := configSpec.GetObject().GetAttributes()
	top["health"] = health
	must.Eq(t, slices.Sorted(maps.Keys(schema)), slices.Sorted(maps.Keys(top)))
	must.Eq(t, slices.Sorted(maps.Keys(schema["health"].GetBlockValue().GetNested().GetObject().GetAttributes())), slices.Sorted(maps.Keys(health)))

	c, err := decodeConfig(pack(t, top))
	must.NoError(t, err)
	want := defaultConfig()
	want.Monitor.IgnoredGPUIDs = []string{}
	must.Eq(t, want, c)
}

// Every error names its option, and all errors are reported at once.
func TestDecodeConfigNamesMistakes(t *testing.T) {
	_, err := decodeConfig(pack(t, map[string]any{
		"enabled":            true,
		"ignored_gpu_ids":    []string{"0"},
		"fingerprint_period": "fast",
		"group_by":           "rack",
		"prometheus_address": "nowhere",
		"health": map[string]any{
			"interval": "1ms", "grace": "-1s", "healthy_after": "x", "xid_recovery": "-1h",
			"ignored_xids": []int{-3}, "call_timeout": "0s",
		},
	}))
	must.Error(t, err)
	for _, option := range []string{
		"ignored_gpu_ids", "fingerprint_period", "group_by", "prometheus_address",
		"health.interval", "health.grace", "health.healthy_after", "health.xid_recovery",
		"health.ignored_xids", "health.call_timeout",
	} {
		must.StrContains(t, err.Error(), option+":")
	}
}

func TestDecodeConfigOfLists(t *testing.T) {
	xids := func(v any) (config, error) {
		return decodeConfig(pack(t, map[string]any{"enabled": true, "health": map[string]any{"enabled": true, "ignored_xids": v}}))
	}
	none, err := xids([]int{})
	must.NoError(t, err)
	must.SliceEmpty(t, none.Monitor.Health.IgnoredXIDs)
	for name, v := range map[string]any{
		"negative": []int{-3}, "fraction": []float64{13.5}, "huge": []float64{1e30}, "text": []string{"x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := xids(v)
			must.ErrorContains(t, err, "health.ignored_xids: ")
		})
	}
}

func TestPrometheusAddress(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9835": true, ":9835": true, "[::1]:9835": true, "gpu-node.not-known-yet:9835": true,
		"localhost": false, "127.0.0.1:": false, "127.0.0.1:0": false, "127.0.0.1:65536": false, "127.0.0.1:http": false, "::1:9835": false,
	} {
		_, err := decodeConfig(pack(t, map[string]any{"enabled": true, "prometheus_address": address}))
		must.Eq(t, ok, err == nil, must.Sprint(address, err))
		if !ok {
			must.ErrorContains(t, err, "prometheus_address: ")
		}
	}
}

func TestIgnoredGPUIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"GPU-a1000000-0000-4000-8000-000000000002": true, "MIG-f4000000-0000-5000-8000-000000000002": true,
		"MIG-GPU-f4000000-0000-4000-8000-000000000001/7/0": true,
		"": false, "0": false, "gpu-a1000000-0000-4000-8000-000000000002": false,
		" GPU-a1000000-0000-4000-8000-000000000002": false, "GPU-a1 ": false,
	} {
		_, err := decodeConfig(pack(t, map[string]any{"enabled": true, "ignored_gpu_ids": []string{id}}))
		must.Eq(t, ok, err == nil, must.Sprint(id, err))
		if !ok {
			must.ErrorContains(t, err, fmt.Sprintf("ignored_gpu_ids: %q", id))
		}
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeConfig(b)
		if err == nil && (c.Monitor.FingerprintPeriod < time.Second || c.Monitor.Health.Interval <= 0 || c.Monitor.Health.CallTimeout <= 0) {
			t.Fatalf("accepted %+v", c)
		}
	})
}
