// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// collector turns a status into metrics.
type collector struct{ s *wire.Status }

var (
	jobLabel = []string{"job"}

	descSize       = prometheus.NewDesc("kolo_ring_size", "Processes that train together now.", jobLabel, nil)
	descGeneration = prometheus.NewDesc("kolo_ring_generation", "Number of the newest ring.", jobLabel, nil)
	descResets     = prometheus.NewDesc("kolo_ring_resets_total", "Rings that replaced an earlier one.", jobLabel, nil)
	descHosts      = prometheus.NewDesc("kolo_hosts", "Allocations connected to the leader.", jobLabel, nil)
	descStep       = prometheus.NewDesc("kolo_step", "Last step that the script reported.", jobLabel, nil)
	descSamples    = prometheus.NewDesc("kolo_samples", "Samples that the script reported.", jobLabel, nil)
	descEpoch      = prometheus.NewDesc("kolo_epoch", "Epoch that the script reported.", jobLabel, nil)
	descLoss       = prometheus.NewDesc("kolo_loss", "Loss that the script reported.", jobLabel, nil)
	descGap        = prometheus.NewDesc("kolo_ring_gap_seconds", "Time without training of the latest resize.", append(jobLabel, "cause"), nil)
	descLost       = prometheus.NewDesc("kolo_lost_steps", "Steps made again after the resizes that the status lists.", jobLabel, nil)
	descStepTime   = prometheus.NewDesc("kolo_step_seconds", "Mean time of a step by ring size.", append(jobLabel, "size"), nil)
	descComplete   = prometheus.NewDesc("kolo_complete", "1 when training is complete.", jobLabel, nil)
)

// Describe sends nothing: the metrics depend on what the script reports.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of the status.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.s
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Job}, labels...)...)
	}
	gauge(descSize, float64(s.Size))
	gauge(descGeneration, float64(s.Generation))
	out <- prometheus.MustNewConstMetric(descResets, prometheus.CounterValue, float64(s.Resets), s.Job)
	gauge(descHosts, float64(s.Hosts))
	for d, v := range map[*prometheus.Desc]*float64{descStep: s.Step, descSamples: s.Samples, descEpoch: s.Epoch, descLoss: s.Loss} {
		if v != nil {
			gauge(d, *v)
		}
	}
	latest, lost := map[string]float64{}, 0.0
	for _, r := range s.Resizes {
		latest[r.Cause] = r.Gap
		lost += r.LostSteps
	}
	for cause, gap := range latest {
		gauge(descGap, gap, cause)
	}
	gauge(descLost, lost)
	for n, t := range s.StepSeconds {
		gauge(descStepTime, t.Mean, strconv.Itoa(n))
	}
	complete := 0.0
	if s.Complete {
		complete = 1
	}
	gauge(descComplete, complete)
}
