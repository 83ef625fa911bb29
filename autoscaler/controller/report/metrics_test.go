// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

type jobs api.Status

func (s *jobs) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

func (s *jobs) Collect(ch chan<- prometheus.Metric) {
	JobGauges(ch, (*api.Status)(s), true, func(identity.JobKey) bool { return true })
}

// The metrics count a job's slots, which are comparable with the processes of its ring. One
// worker may have many.
func TestJobGauges_Slots(t *testing.T) {
	s := &jobs{Jobs: []api.JobStatus{{JobKey: identity.JobKey{Namespace: "a", ID: "j"}, Running: 3, Requests: api.Requests{Slots: 8}}}}
	r := prometheus.NewRegistry()
	r.MustRegister(s)
	families, err := r.Gather()
	must.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	must.Eq(t, 3, got["kolo_job_running"])
	must.Eq(t, 24, got["kolo_job_slots"])
	gang := api.JobStatus{Running: 10, Requests: api.Requests{Slots: 9, Ratio: map[string]int{"ps": 1, "workers": 4}}}
	must.Eq(t, 18, gang.Slots(), must.Sprint("of two units"))
}

type gpus []cluster.GPU

func (g gpus) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

func (g gpus) Collect(ch chan<- prometheus.Metric) {
	GPUInfo(ch, g, map[string]int{"known": 0}, func(key identity.JobKey) bool { return key.ID != "secret" })
}

// An unknown rank is empty, because 0 is a rank.
func TestGPUInfo(t *testing.T) {
	key := identity.JobKey{Namespace: "a", ID: "j"}
	r := prometheus.NewRegistry()
	r.MustRegister(gpus{{ID: "GPU-1", Alloc: "known", Job: key}, {ID: "GPU-2", Alloc: "other", Job: key}, {ID: "GPU-3", Job: identity.JobKey{ID: "secret"}}})
	families, err := r.Gather()
	must.NoError(t, err)
	must.Len(t, 1, families)
	got := map[string]string{}
	for _, m := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		got[labels["uuid"]] = labels["namespace"] + "/" + labels["job_id"] + "/" + labels["alloc_id"] + "/" + labels["rank"]
	}
	must.Eq(t, map[string]string{"GPU-1": "a/j/known/0", "GPU-2": "a/j/other/"}, got)
}
