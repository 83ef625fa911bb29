// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// metrics holds the autoscaler's Prometheus metrics. Counters cover this process only;
// gauges are read from the newest Status on collection.
type metrics struct {
	registry *prometheus.Registry

	decisions  *prometheus.HistogramVec
	refusals   *prometheus.CounterVec
	resizes    *prometheus.CounterVec
	writes     *prometheus.HistogramVec
	jct, queue prometheus.Histogram
	gaps       prometheus.Histogram
	lost       prometheus.Counter
}

func newMetrics(c *Controller) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kolo_decision_seconds", Help: "Time a policy took to decide.", Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
		}, []string{"pool"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kolo_decisions_refused_total", Help: "Decisions that broke an invariant or failed.",
		}, []string{"pool"}),
		resizes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kolo_resizes_total", Help: "Changes of a job's count that were written, by cause.",
		}, []string{"cause"}),
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kolo_write_seconds", Help: "Time one action took in Nomad, by result.", Buckets: prometheus.ExponentialBuckets(1e-3, 4, 8),
		}, []string{"result"}),
		jct: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kolo_job_completion_seconds", Help: "From the first sight of a job to its first completed worker (JCT).", Buckets: prometheus.ExponentialBuckets(10, 3, 12),
		}),
		queue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kolo_job_queueing_seconds", Help: "From the first sight of a completed job to its first worker.", Buckets: prometheus.ExponentialBuckets(1, 3, 12),
		}),
		gaps: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kolo_resize_gap_seconds", Help: "Time in which no slot of a job trained, for each resize for which it is known.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 12),
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "kolo_lost_steps_total", Help: "Training steps that resizes made jobs repeat, as far as they are known."}),
	}
	m.registry.MustRegister(m.decisions, m.refusals, m.resizes, m.writes, m.jct, m.queue, m.gaps, m.lost, &collector{
		append([]*prometheus.Desc{leaderDesc, callsDesc, failuresDesc}, report.PoolDescs...), c.gauges,
	})
	return m
}

func (m *metrics) decision(pool string, took time.Duration, err error) {
	m.decisions.WithLabelValues(pool).Observe(took.Seconds())
	if err != nil {
		m.refusals.WithLabelValues(pool).Inc()
	}
}

func (m *metrics) wrote(a planner.Action, done cluster.Written, err error, took time.Duration) {
	result := "ok"
	switch {
	case err != nil:
		result = string(cluster.Classify(err))
	case a.Cause != planner.Keep && done.Steps > 0:
		m.resizes.WithLabelValues(string(a.Cause)).Inc()
	}
	m.writes.WithLabelValues(result).Observe(took.Seconds())
}

func (m *metrics) completed(j *history.Job) {
	m.jct.Observe(j.Completed.Sub(j.FirstSeen).Seconds())
	if !j.FirstStart.IsZero() {
		m.queue.Observe(max(0, j.FirstStart.Sub(j.FirstSeen).Seconds()))
	}
}

// collector reads metrics from the newest Status when they are asked for.
type collector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

var (
	leaderDesc   = prometheus.NewDesc("kolo_leader", "1 where this autoscaler leads.", nil, nil)
	callsDesc    = prometheus.NewDesc("kolo_nomad_requests_total", "Requests sent to Nomad.", nil, nil)
	failuresDesc = prometheus.NewDesc("kolo_nomad_request_errors_total", "Requests to Nomad that failed.", nil, nil)
)

// gauges sends the gauges of the autoscaler itself and, if it leads, those of the pools.
func (c *Controller) gauges(ch chan<- prometheus.Metric) {
	s := c.Status()
	lead := 0.0
	if s.Leading {
		lead = 1
	}
	ch <- prometheus.MustNewConstMetric(leaderDesc, prometheus.GaugeValue, lead)
	calls, failures := c.client.Calls()
	ch <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(calls))
	ch <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(failures))
	if s.Leading { // a sum over all autoscalers counts a pool once
		report.PoolGauges(ch, s)
	}
}

// JobMetrics returns a collector of the metrics whose labels jobs choose: the metrics
// per queue and, unless telemetry { per_job } is off, the metrics per job. They cover
// the jobs for which sees returns true, and only the leader exports them.
func (c *Controller) JobMetrics(sees func(identity.JobKey) bool) prometheus.Collector {
	return &collector{report.JobDescs, func(ch chan<- prometheus.Metric) {
		if s := c.Status(); s.Leading {
			perJob := c.Config().Telemetry.PerJob
			report.JobGauges(ch, s, perJob, sees)
			if perJob {
				gpus := c.watcher.GPUs()
				report.GPUInfo(ch, gpus, c.ranks(gpus), sees)
			}
		}
		c.mu.Lock()
		used := c.used
		if used != nil {
			used = used.Clone() // sees may ask Nomad
		}
		c.mu.Unlock()
		if used != nil {
			used.Collect(ch, sees)
		}
	}}
}

// Registry returns the autoscaler's metrics except the metrics of JobMetrics.
func (c *Controller) Registry() *prometheus.Registry { return c.metrics.registry }

// ranks returns the known ranks of allocations that hold GPUs.
func (c *Controller) ranks(gpus []cluster.GPU) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for _, g := range gpus {
		if j := c.jobs[g.Job]; j != nil {
			if rank, ok := j.ranks[g.Alloc]; ok {
				out[g.Alloc] = rank
			}
		}
	}
	return out
}
