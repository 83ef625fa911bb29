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

	"github.com/kolo-nomad/kolo/device/nvml"
)

// scrapeAge is how old readings may be that are served, scrapeWait how long a
// scrape waits for newer ones before it gets what is there. Prometheus gives up
// after 10 s.
const (
	scrapeAge  = time.Second
	scrapeWait = 5 * time.Second
)

// listenAgain is how soon an address that is taken is tried again.
const listenAgain = 15 * time.Second

// serveMetrics serves Prometheus text on the address until the context ends,
// and has let go of the address when it returns. One that is taken is tried
// again: metrics must not keep devices from Nomad.
func serveMetrics(ctx context.Context, address string, again time.Duration, m *monitor, log hclog.Logger) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{m: m})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	said := ""
	for {
		err := serve(ctx, server, address, log)
		if ctx.Err() != nil {
			return
		}
		if said != err.Error() {
			said = err.Error()
			log.Error("prometheus_address: metrics cannot be served yet", "address", address, "error", err, "trying_again_every", again)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
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
	value func(*reading) *float64
}

// gpuLabels tell GPUs apart: UUID, number in /dev/nvidia<n>, and product name.
var gpuLabels = []string{"uuid", "gpu", "model"}

func newGauge(name, help string, kind prometheus.ValueType, value func(*reading) *float64) gauge {
	return gauge{
		desc:  prometheus.NewDesc("nvtopo_gpu_"+name, help, gpuLabels, nil),
		kind:  kind,
		value: value,
	}
}

var gauges = []gauge{
	newGauge("memory_used_bytes", "Memory in use.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.MemoryUsedMiB, 1<<20) }),
	newGauge("memory_total_bytes", "Memory of the GPU.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.MemoryTotalMiB, 1<<20) }),
	newGauge("utilization_ratio", "Share of time in which a kernel was executing.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.GPUUtil, 0.01) }),
	newGauge("memory_utilization_ratio", "Share of time in which memory was read or written.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.MemoryUtil, 0.01) }),
	newGauge("power_watts", "Power that the GPU draws.", prometheus.GaugeValue,
		func(r *reading) *float64 { return r.sample.PowerW }),
	newGauge("power_limit_watts", "Power that the GPU may draw.", prometheus.GaugeValue,
		func(r *reading) *float64 { return r.sample.PowerLimitW }),
	newGauge("temperature_celsius", "Temperature of the GPU.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.TemperatureC, 1) }),
	newGauge("memory_temperature_celsius", "Temperature of the memory.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.MemoryTemperatureC, 1) }),
	newGauge("core_clock_hertz", "Clock of the cores.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.CoreClockMHz, 1e6) }),
	newGauge("memory_clock_hertz", "Clock of the memory.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.MemoryClockMHz, 1e6) }),
	newGauge("encoder_utilization_ratio", "Share of time in which the video encoder was used.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.EncoderUtil, 0.01) }),
	newGauge("decoder_utilization_ratio", "Share of time in which the video decoder was used.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.DecoderUtil, 0.01) }),
	newGauge("bar1_used_bytes", "BAR1 memory in use.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.BAR1UsedMiB, 1<<20) }),
	newGauge("bar1_total_bytes", "BAR1 memory of the GPU.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.BAR1TotalMiB, 1<<20) }),
	newGauge("ecc_corrected_errors_total", "Errors that ECC corrected since the driver was loaded.", prometheus.CounterValue,
		func(r *reading) *float64 { return scaled(r.sample.ECCCorrected, 1) }),
	newGauge("ecc_uncorrected_errors_total", "Errors that ECC could not correct since the driver was loaded.", prometheus.CounterValue,
		func(r *reading) *float64 { return scaled(r.sample.ECCUncorrected, 1) }),
	newGauge("reset_pending", "1 when bad memory waits for a reset to be taken out of use.", prometheus.GaugeValue,
		func(r *reading) *float64 { return either(r.sample.RemapPending, r.sample.RetiredPending) }),
	newGauge("nvlink_transmit_bytes_total", "Data sent over all NVLinks.", prometheus.CounterValue,
		func(r *reading) *float64 { return scaled(r.sample.NVLinkTx, 1) }),
	newGauge("nvlink_receive_bytes_total", "Data received over all NVLinks.", prometheus.CounterValue,
		func(r *reading) *float64 { return scaled(r.sample.NVLinkRx, 1) }),
	newGauge("pcie_transmit_bytes_per_second", "Rate of sending over PCIe.", prometheus.GaugeValue,
		func(r *reading) *float64 { return r.pcieTx }),
	newGauge("pcie_receive_bytes_per_second", "Rate of receiving over PCIe.", prometheus.GaugeValue,
		func(r *reading) *float64 { return r.pcieRx }),
}

var (
	throttledDesc = prometheus.NewDesc("nvtopo_gpu_throttled",
		"1 while clocks are lower than they could be, for this reason.", slices.Concat(gpuLabels, []string{"reason"}), nil)
	healthyDesc = prometheus.NewDesc("nvtopo_device_healthy",
		"1 for a GPU or MIG instance that Nomad may use, 0 for one that it may not.",
		[]string{"uuid", "group"}, nil)
	unhealthyDesc = prometheus.NewDesc("nvtopo_device_unhealthy_info",
		"Why Nomad may not use a GPU or MIG instance; not there for one that it may.",
		[]string{"uuid", "group", "reason"}, nil)
	instanceDesc = prometheus.NewDesc("nvtopo_mig_memory_used_bytes",
		"Memory of a MIG instance in use.", []string{"uuid", "parent", "profile"}, nil)
	instanceTotalDesc = prometheus.NewDesc("nvtopo_mig_memory_total_bytes",
		"Memory of a MIG instance.", []string{"uuid", "parent", "profile"}, nil)
)

// collector makes metrics of the readings that all share.
type collector struct{ m *monitor }

// Describe says that the metrics are not known beforehand.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect takes readings and sends them. Of a GPU that could not be read there
// is its health alone.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	readings, err := c.m.measure(ctx, scrapeAge)
	if err != nil {
		readings = *c.m.readings.Load()
	}
	v, _ := c.m.latest()
	if v == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	seen := map[string]bool{}
	for i, u := range v.layout.units {
		cond := v.health[u.id()]
		gauge(healthyDesc, oneIf(cond.ok), u.id(), v.names[i])
		if !cond.ok {
			gauge(unhealthyDesc, 1, u.id(), v.names[i], cond.reason)
		}
		f := u.card.facts
		r := readings[f.UUID]
		if r == nil {
			continue
		}
		if in := u.instance; in != nil {
			if mib, ok := r.sample.Instances[in.UUID]; ok {
				gauge(instanceDesc, float64(mib)*(1<<20), in.UUID, f.UUID, in.Profile)
			}
			if in.MemoryMiB != nil {
				gauge(instanceTotalDesc, float64(*in.MemoryMiB)*(1<<20), in.UUID, f.UUID, in.Profile)
			}
		}
		if !seen[f.UUID] {
			seen[f.UUID] = true
			r.collect(f, out)
		}
	}
}

// collect sends the metrics of a GPU.
func (r *reading) collect(f nvml.Facts, out chan<- prometheus.Metric) {
	minor := ""
	if f.Minor != nil {
		minor = strconv.Itoa(*f.Minor)
	}
	for _, g := range gauges {
		if value := g.value(r); value != nil {
			out <- prometheus.MustNewConstMetric(g.desc, g.kind, *value, f.UUID, minor, f.Name)
		}
	}
	if mask := r.sample.Throttle; mask != nil {
		for _, t := range throttles {
			out <- prometheus.MustNewConstMetric(throttledDesc, prometheus.GaugeValue, oneIf(*mask&t.bit != 0),
				f.UUID, minor, f.Name, t.name)
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// either is 1 when one of the two is true, 0 when none is, and nothing when
// neither is told.
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
