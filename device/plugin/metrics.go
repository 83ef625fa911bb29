// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeAge is how old readings may be that are served.
const scrapeAge = time.Second

// serveMetrics serves Prometheus text on the address until the context ends. A
// port that is taken is tried again: metrics must not keep devices from Nomad.
func serveMetrics(ctx context.Context, address string, m *monitor, log hclog.Logger) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{m: m})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	for {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			log.Info("serving metrics", "address", l.Addr().String())
			context.AfterFunc(ctx, func() { _ = server.Close() })
			if err = server.Serve(l); errors.Is(err, http.ErrServerClosed) {
				return
			}
		}
		log.Error("metrics cannot be served; trying again in a minute", "address", address, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
	}
}

// gauge is a metric of a GPU.
type gauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*reading) *float64
}

func newGauge(name, help string, kind prometheus.ValueType, value func(*reading) *float64) gauge {
	return gauge{
		desc:  prometheus.NewDesc("nvtopo_gpu_"+name, help, []string{"uuid", "gpu", "model"}, nil),
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
	newGauge("throttle_reasons", "NVML's bit mask of reasons for lower clocks.", prometheus.GaugeValue,
		func(r *reading) *float64 { return scaled(r.sample.Throttle, 1) }),
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
	healthyDesc = prometheus.NewDesc("nvtopo_device_healthy",
		"1 for a GPU or MIG instance that Nomad may use, 0 for one that it may not.",
		[]string{"uuid", "group", "reason"}, nil)
	instanceDesc = prometheus.NewDesc("nvtopo_mig_memory_used_bytes",
		"Memory of a MIG instance in use.", []string{"uuid", "parent", "profile"}, nil)
)

// collector makes metrics of the readings that all share.
type collector struct{ m *monitor }

// Describe says that the metrics are not known beforehand.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect takes readings and sends them.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.m.cfg.Health.CallTimeout+eventWait)
	defer cancel()
	readings, err := c.m.measure(ctx, scrapeAge)
	v, _ := c.m.latest()
	if err != nil || v == nil {
		return
	}
	for i, u := range v.layout.units {
		cond := v.health[u.id()]
		healthy := 0.0
		if cond.ok {
			healthy = 1
		}
		out <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, healthy, u.id(), v.names[i], cond.reason)
		r := readings[u.card.facts.UUID]
		if r == nil || u.instance == nil {
			continue
		}
		if mib, ok := r.sample.Instances[u.id()]; ok {
			out <- prometheus.MustNewConstMetric(instanceDesc, prometheus.GaugeValue, float64(mib)*(1<<20),
				u.id(), u.card.facts.UUID, u.instance.Profile)
		}
	}
	seen := map[string]bool{}
	for _, u := range v.layout.units {
		f := u.card.facts
		r := readings[f.UUID]
		if r == nil || seen[f.UUID] {
			continue
		}
		seen[f.UUID] = true
		minor := ""
		if f.Minor != nil {
			minor = strconv.Itoa(*f.Minor)
		}
		for _, g := range gauges {
			if value := g.value(r); value != nil {
				out <- prometheus.MustNewConstMetric(g.desc, g.kind, *value, f.UUID, minor, f.Name)
			}
		}
	}
}

// either is 1 when one of the two is true, 0 when none is, and nothing when
// neither is told.
func either(a, b *bool) *float64 {
	if a == nil && b == nil {
		return nil
	}
	v := 0.0
	if a != nil && *a || b != nil && *b {
		v = 1
	}
	return &v
}

func scaled[N uint | uint64](v *N, by float64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v) * by
	return &f
}
