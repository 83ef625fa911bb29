// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// collector exports a status as metrics. Every allocation has the status of the ring, but
// only the leader's exports it, so that a sum over all allocations counts a ring once.
type collector struct{ s *wire.Status }

const leaderDoc = "1 on the allocation that leads the ring, which exports the other metrics."

// Describe sends nothing: the metrics depend on what the script reports.
func (collector) Describe(chan<- *prometheus.Desc) {}

// leads reports whether the leader itself answers.
func (c collector) leads() bool { return c.s.AllocID == "" || c.s.AllocID == c.s.Leader }

// Collect sends the metrics of the status.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.s
	// Not "job": Prometheus sets that label itself, to the name of the scrape's job.
	send := func(kind prometheus.ValueType, name, doc string, v float64, label ...string) {
		labels, values := []string{"namespace", "job_id"}, []string{s.Namespace, s.Job}
		if len(label) == 2 {
			labels, values = append(labels, label[0]), append(values, label[1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, doc, labels, nil), kind, v, values...)
	}
	gauge := func(name, doc string, v float64, label ...string) {
		send(prometheus.GaugeValue, name, doc, v, label...)
	}
	reported := func(name, doc string, v *float64) {
		if v != nil {
			gauge(name, doc, *v)
		}
	}
	if !c.leads() {
		gauge("kolo_ring_leader", leaderDoc, 0)
		return
	}
	gauge("kolo_ring_leader", leaderDoc, 1)
	gauge("kolo_ring_size", "Processes that train together now.", float64(s.Size))
	gauge("kolo_ring_generation", "Number of the newest ring.", float64(s.Generation))
	send(prometheus.CounterValue, "kolo_ring_resets_total", "Rings that replaced an earlier one.", float64(s.Resets))
	gauge("kolo_hosts", "Allocations connected to the leader.", float64(s.Hosts))
	gauge("kolo_spares_ready", "Allocations that wait outside the ring, ready to replace a lost one.", float64(s.SparesReady))
	reported("kolo_step", "Last step that the script reported.", s.Step)
	reported("kolo_samples", "Samples that the script reported.", s.Samples)
	reported("kolo_epoch", "Epoch that the script reported.", s.Epoch)
	reported("kolo_loss", "Loss that the script reported.", s.Loss)
	if b := s.Adaptive; b != nil {
		gauge("kolo_batch_samples", "Samples of all ranks in a step; absent unless the batch adapts.", b.Batch)
		gauge("kolo_batch_accumulation", "Forward passes of each rank in a step.", b.Accumulation)
		gauge("kolo_batch_efficiency", "What a sample contributes, relative to one of the initial batch.", b.Efficiency)
		gauge("kolo_batch_lr_factor", "Factor of the learning rate.", b.LRFactor)
	}
	latest, lost := map[string]*float64{}, new(float64)
	for _, r := range s.Resizes {
		latest[r.Cause] = r.Gap
		if lost != nil && r.LostSteps != nil {
			*lost += *r.LostSteps
		} else {
			lost = nil
		}
	}
	for cause, gap := range latest {
		if gap != nil {
			gauge("kolo_ring_gap_seconds", "Time without training of the latest resize.", *gap, "cause", cause)
		}
	}
	reported("kolo_lost_steps", "Steps made again after the resizes that the status lists.", lost)
	for n, t := range s.StepSeconds {
		gauge("kolo_step_seconds", "Mean time of a step by ring size.", t.Mean, "size", strconv.Itoa(n))
	}
	if g := s.Straggler; g != nil {
		gauge("kolo_straggler_behind_seconds", "Time by which the straggler arrives after the median of the other ranks; absent without one.", g.Behind, "rank", strconv.Itoa(g.Rank))
	}
	complete := 0.0
	if s.Complete {
		complete = 1
	}
	gauge("kolo_complete", "1 when training is complete.", complete)
}
