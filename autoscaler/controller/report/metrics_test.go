// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

type jobs api.Status

func (s *jobs) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

func (s *jobs) Collect(ch chan<- prometheus.Metric) {
	JobGauges(ch, (*api.Status)(s), true, func(identity.JobKey) bool { return true })
}

// The slots of a job are comparable with the processes of its ring: a worker may have many.
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
}
