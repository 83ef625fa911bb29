// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kolo-nomad/kolo/device/monitor"
	"github.com/kolo-nomad/kolo/device/nvml"
)

// scrapeAge is the largest age of readings to serve. scrapeWait is how long a
// scrape waits for newer ones before it gets the last ones. Prometheus' own limit
// is 10 s.
const (
	scrapeAge  = time.Second
	scrapeWait = 5 * time.Second
)

// Serve serves metrics on the address until the context ends. It has released the
// address when it returns. If the address is in use, Serve tries again after retry
// instead of failing, because Nomad must get its devices even without metrics.
func Serve(ctx context.Context, address string, retry time.Duration, m *monitor.Monitor, log hclog.Logger) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{m: m})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	logged := ""
	for {
		err := serve(ctx, server, address, log)
		if ctx.Err() != nil {
			return
		}
		if logged != err.Error() {
			logged = err.Error()
			log.Error("prometheus_address: metrics cannot be served yet", "address", address, "error", err, "retry", retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

func serve(ctx context.Context, server *http.Server, address string, log hclog.Logger) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	log.Info("serving metrics", "address", l.Addr().String())
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	return server.Serve(l)
}

// gauge is a metric of a GPU.
type gauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*monitor.Reading) *float64
}

// gpuLabels identify a GPU: UUID, number in /dev/nvidia<n>, and product name.
var gpuLabels = []string{"uuid", "gpu", "model"}

func newGauge(name, help string, kind prometheus.ValueType, value func(*monitor.Reading) *float64) gauge {
	return gauge{
		desc:  prometheus.NewDesc("nvtopo_gpu_"+name, help, gpuLabels, nil),
		kind:  kind,
		value: value,
	}
}

var gauges = []gauge{
	newGauge("memory_used_bytes", "Memory in use.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.MemoryUsedMiB, 1<<20) }),
	newGauge("memory_total_bytes", "Memory of the GPU.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.MemoryTotalMiB, 1<<20) }),
	newGauge("utilization_ratio", "Share of time in which a kernel was executing.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.GPUUtil, 0.01) }),
	newGauge("memory_utilization_ratio", "Share of time in which memory was read or written.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.MemoryUtil, 0.01) }),
	newGauge("power_watts", "Power that the GPU draws.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return r.Sample.PowerW }),
	newGauge("power_limit_watts", "Power that the GPU may draw.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return r.Sample.PowerLimitW }),
	newGauge("temperature_celsius", "Temperature of the GPU.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.TemperatureC, 1) }),
	newGauge("memory_temperature_celsius", "Temperature of the memory.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.MemoryTemperatureC, 1) }),
	newGauge("core_clock_hertz", "Clock of the cores.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.CoreClockMHz, 1e6) }),
	newGauge("memory_clock_hertz", "Clock of the memory.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.MemoryClockMHz, 1e6) }),
	newGauge("encoder_utilization_ratio", "Share of time in which the video encoder was used.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.EncoderUtil, 0.01) }),
	newGauge("decoder_utilization_ratio", "Share of time in which the video decoder was used.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.DecoderUtil, 0.01) }),
	newGauge("bar1_used_bytes", "BAR1 memory in use.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.BAR1UsedMiB, 1<<20) }),
	newGauge("bar1_total_bytes", "BAR1 memory of the GPU.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.BAR1TotalMiB, 1<<20) }),
	newGauge("ecc_corrected_errors_total", "Errors that ECC corrected since the driver was loaded.", prometheus.CounterValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.ECCCorrected, 1) }),
	newGauge("ecc_uncorrected_errors_total", "Errors that ECC could not correct since the driver was loaded.", prometheus.CounterValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.ECCUncorrected, 1) }),
	newGauge("reset_pending", "1 when bad memory waits for a reset to be taken out of use.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return either(r.Sample.RemapPending, r.Sample.RetiredPending) }),
	newGauge("nvlink_transmit_bytes_total", "Data sent over all NVLinks.", prometheus.CounterValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.NVLinkTx, 1) }),
	newGauge("nvlink_receive_bytes_total", "Data received over all NVLinks.", prometheus.CounterValue,
		func(r *monitor.Reading) *float64 { return scaled(r.Sample.NVLinkRx, 1) }),
	newGauge("pcie_transmit_bytes_per_second", "Rate of sending over PCIe.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return r.PCIeTx }),
	newGauge("pcie_receive_bytes_per_second", "Rate of receiving over PCIe.", prometheus.GaugeValue,
		func(r *monitor.Reading) *float64 { return r.PCIeRx }),
}

var (
	throttledDesc = prometheus.NewDesc("nvtopo_gpu_throttled",
		"1 while clocks are lower than they could be, for this reason.", slices.Concat(gpuLabels, []string{"reason"}), nil)
	healthyDesc = prometheus.NewDesc("nvtopo_device_healthy",
		"1 for a GPU or MIG instance that Nomad may use, 0 for one that it may not.",
		[]string{"uuid", "group"}, nil)
	unhealthyDesc = prometheus.NewDesc("nvtopo_device_unhealthy_info",
		"Why Nomad may not use a GPU or MIG instance; absent for one that it may.",
		[]string{"uuid", "group", "reason"}, nil)
	instanceDesc = prometheus.NewDesc("nvtopo_mig_memory_used_bytes",
		"Memory of a MIG instance in use.", []string{"uuid", "parent", "profile"}, nil)
	instanceTotalDesc = prometheus.NewDesc("nvtopo_mig_memory_total_bytes",
		"Memory of a MIG instance.", []string{"uuid", "parent", "profile"}, nil)
)

// collector converts the monitor's readings to metrics.
type collector struct{ m *monitor.Monitor }

// Describe sends nothing, because the metrics are not known beforehand.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect takes readings and sends them. For a GPU that could not be read it sends
// only the health.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	readings, err := c.m.Measure(ctx, scrapeAge)
	if err != nil {
		readings = c.m.Readings()
	}
	v, _ := c.m.Latest()
	if v == nil {
		return
	}
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	sent := map[string]bool{}
	for i, u := range v.Layout.Units {
		group, cond := v.Layout.GroupName(i), v.Health[u.ID()]
		send(healthyDesc, oneIf(cond.Healthy), u.ID(), group)
		if !cond.Healthy {
			send(unhealthyDesc, 1, u.ID(), group, cond.Reason)
		}
		gpu := u.GPU.UUID
		r := readings[gpu]
		if r == nil {
			continue
		}
		if in := u.Instance; in != nil {
			if mib, ok := r.Sample.Instances[in.UUID]; ok {
				send(instanceDesc, float64(mib)*(1<<20), in.UUID, gpu, in.Profile)
			}
			if in.MemoryMiB != nil {
				send(instanceTotalDesc, float64(*in.MemoryMiB)*(1<<20), in.UUID, gpu, in.Profile)
			}
		}
		if !sent[gpu] {
			sent[gpu] = true
			sendGPU(u.GPU, r, out)
		}
	}
}

// sendGPU sends the metrics of a GPU.
func sendGPU(f *nvml.Facts, r *monitor.Reading, out chan<- prometheus.Metric) {
	minor := ""
	if f.Minor != nil {
		minor = strconv.Itoa(*f.Minor)
	}
	for _, g := range gauges {
		if value := g.value(r); value != nil {
			out <- prometheus.MustNewConstMetric(g.desc, g.kind, *value, f.UUID, minor, f.Name)
		}
	}
	if mask := r.Sample.Throttle; mask != nil {
		for _, t := range nvml.ThrottleReasons() {
			out <- prometheus.MustNewConstMetric(throttledDesc, prometheus.GaugeValue, oneIf(t.In(*mask)),
				f.UUID, minor, f.Name, t.Name)
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// either returns 1 if one of the two is true, 0 if neither is, and nil if both are
// unknown.
func either(a, b *bool) *float64 {
	if a == nil && b == nil {
		return nil
	}
	v := oneIf(a != nil && *a || b != nil && *b)
	return &v
}

func scaled[N uint | uint64](v *N, by float64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v) * by
	return &f
}
