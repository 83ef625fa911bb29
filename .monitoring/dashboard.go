// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// A chart is one panel: a title, what it shows, and its queries by legend.
type chart struct {
	title, about, unit string
	stack              bool
	queries            []query
}

type query struct{ legend, expr string }

// pool restricts a query to the pools that are chosen at the top of the dashboard.
const pool = `pool=~"$pool"`

// rows are the rows of the dashboard, in the order of the questions that it answers.
var rows = []struct {
	title  string
	charts []chart
}{
	{"Why do jobs wait?", []chart{
		{"Jobs that wait, by reason", "docs/reference/api.md lists the reasons with their remedies.", "short", true, []query{
			{"{{reason}}", `sum by (reason) (kolo_jobs_waiting{` + pool + `})`},
		}},
		{"Jobs that wait, by queue", "Jobs that the caller's token may not read have an empty queue.", "short", true, []query{
			{"{{pool}}/{{queue}}", `sum by (pool, queue) (kolo_jobs_waiting{` + pool + `})`},
		}},
		{"Time in the queue", "Of jobs that completed in the last day, from the first sight of a job to its first worker.", "s", false, []query{
			{"median", `histogram_quantile(0.5, sum by (le) (increase(kolo_job_queueing_seconds_bucket[1d])))`},
			{"90 %", `histogram_quantile(0.9, sum by (le) (increase(kolo_job_queueing_seconds_bucket[1d])))`},
			{"99 %", `histogram_quantile(0.99, sum by (le) (increase(kolo_job_queueing_seconds_bucket[1d])))`},
		}},
	}},
	{"Who has the slots?", []chart{
		{"Slots of the pools", "Slots for elastic jobs, and those that such jobs hold.", "short", false, []query{
			{"{{pool}}: used", `max by (pool) (kolo_pool_slots_used{` + pool + `})`},
			{"{{pool}}: all", `max by (pool) (kolo_pool_slots{` + pool + `})`},
		}},
		{"Slots of the queues", "With the guarantee of each.", "short", false, []query{
			{"{{pool}}/{{queue}}: used", `max by (pool, queue) (kolo_queue_slots_used{` + pool + `})`},
			{"{{pool}}/{{queue}}: guaranteed", `max by (pool, queue) (kolo_queue_slots_guaranteed{` + pool + `}) > 0`},
		}},
		{"Workers by namespace", "Absent with telemetry { per_job = false }.", "short", true, []query{
			{"{{namespace}}", `sum by (namespace) (kolo_job_running)`},
		}},
		{"Slots that jobs would use in addition", "If the pool had more room.", "short", true, []query{
			{"{{pool}}/{{queue}}", `sum by (pool, queue) (kolo_slots_wanted{` + pool + `}) > 0`},
		}},
	}},
	{"What are slots used for?", []chart{
		{"Use of slots", "The glossary defines the uses. Slots that are productive train steps which are kept.", "percentunit", true, []query{
			{"{{use}}", `sum by (use) (rate(kolo_slot_seconds_total{` + pool + `}[$__rate_interval])) / on () group_left () sum(rate(kolo_slot_seconds_total{` + pool + `}[$__rate_interval]))`},
		}},
		{"Not productive, by namespace", "Slots of which it is known that they do not train.", "short", true, []query{
			{"{{namespace}}", `sum by (namespace) (rate(kolo_slot_seconds_total{` + pool + `,use!~"productive|unknown"}[$__rate_interval]))`},
		}},
		{"Idle jobs", "Time since the last step, in pools with idle_after.", "s", false, []query{
			{"{{namespace}}/{{job_id}}", `max by (namespace, job_id) (kolo_job_idle_seconds)`},
		}},
		{"Budgets", "Used part of the present period.", "percentunit", false, []query{
			{"{{pool}}/{{queue}}", `max by (pool, queue) (kolo_queue_budget_used_slot_hours{` + pool + `}) / max by (pool, queue) (kolo_queue_budget_slot_hours{` + pool + `})`},
		}},
	}},
	{"What do resizes cost?", []chart{
		{"Resizes", "Changes of counts in Nomad, by cause.", "short", true, []query{
			{"{{cause}}", `sum by (cause) (increase(kolo_resizes_total[$__rate_interval]))`},
		}},
		{"Gap of a resize", "Time in which no worker trained. Unknown gaps do not count.", "s", false, []query{
			{"median", `histogram_quantile(0.5, sum by (le) (increase(kolo_resize_gap_seconds_bucket[1h])))`},
			{"90 %", `histogram_quantile(0.9, sum by (le) (increase(kolo_resize_gap_seconds_bucket[1h])))`},
			{"99 %", `histogram_quantile(0.99, sum by (le) (increase(kolo_resize_gap_seconds_bucket[1h])))`},
		}},
		{"Steps that were repeated", "As far as they are known.", "short", false, []query{
			{"steps", `sum(increase(kolo_lost_steps_total[1h]))`},
		}},
	}},
	{"Does it train?", []chart{
		{"Loss", "As the scripts report it.", "none", false, []query{
			{"{{namespace}}/{{job_id}}", `max by (namespace, job_id) (kolo_loss)`},
		}},
		{"Time of a step", "At the present size.", "s", false, []query{
			{"{{namespace}}/{{job_id}}, {{size}}", `max by (namespace, job_id, size) (kolo_step_seconds)`},
		}},
		{"Processes in the ring", "Workers that train together now.", "short", false, []query{
			{"{{namespace}}/{{job_id}}", `max by (namespace, job_id) (kolo_ring_size)`},
		}},
	}},
	{"Are the GPUs used, and healthy?", []chart{
		{"Utilization", "Mean of the GPUs of each node.", "percentunit", false, []query{
			{"{{instance}}", `avg by (instance) (nvtopo_gpu_utilization_ratio)`},
		}},
		{"GPUs with a utilization below 5 % for half an hour", "Whether or not a task holds them.", "short", true, []query{
			{"{{instance}}", `count by (instance) (max_over_time(nvtopo_gpu_utilization_ratio[30m]) < 0.05)`},
		}},
		{"Unhealthy GPUs", "By reason.", "short", true, []query{
			{"{{reason}}", `sum by (reason) (nvtopo_device_unhealthy_info)`},
		}},
	}},
	{"Is Kolo itself well?", []chart{
		{"Time of a decision", "99 % of decisions take less.", "s", false, []query{
			{"{{pool}}", `histogram_quantile(0.99, sum by (le, pool) (rate(kolo_decision_seconds_bucket{` + pool + `}[$__rate_interval])))`},
		}},
		{"Requests to Nomad", "All, and those that failed.", "reqps", false, []query{
			{"all", `sum(rate(kolo_nomad_requests_total[$__rate_interval]))`},
			{"failed", `sum(rate(kolo_nomad_request_errors_total[$__rate_interval]))`},
		}},
		{"Writes", "By result.", "short", true, []query{
			{"{{result}}", `sum by (result) (increase(kolo_write_seconds_count[$__rate_interval]))`},
		}},
	}},
}

// numbers are the panels with a single number at the top.
var numbers = []chart{
	{title: "Slots in use", unit: "percentunit", queries: []query{{"", `sum(kolo_pool_slots_used{` + pool + `}) / sum(kolo_pool_slots{` + pool + `})`}}},
	{title: "Jobs waiting", unit: "short", queries: []query{{"", `sum(kolo_jobs_waiting{` + pool + `}) or vector(0)`}}},
	{title: "Jobs training", unit: "short", queries: []query{{"", `count(max by (namespace, job_id) (kolo_ring_size) > 0) or vector(0)`}}},
	{title: "Steps repeated in a day", unit: "short", queries: []query{{"", `sum(increase(kolo_lost_steps_total[1d]))`}}},
	{title: "Jobs with errors", unit: "short", queries: []query{{"", `max(kolo_jobs_with_problems)`}}},
	{title: "Leaders", unit: "short", queries: []query{{"", `sum(kolo_leader)`}}},
}

// The height of a panel, and the width of the dashboard, in Grafana's grid.
const (
	height = 8
	width  = 24
)

// source returns the data source that is chosen at the top of the dashboard.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${source}")}
}

// targets returns the queries of a panel.
func targets(c chart) []cog.Builder[variants.Dataquery] {
	var out []cog.Builder[variants.Dataquery]
	for i, q := range c.queries {
		out = append(out, prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A'+i))))
	}
	return out
}

// dashboardJSON returns the dashboard as Grafana imports it.
func dashboardJSON() ([]byte, error) {
	//nolint:staticcheck // SA1019: releases of Grafana before 12 import the classic form only
	b := dashboard.NewDashboardBuilder("Kolo").Uid("kolo").Tags([]string{"kolo", "nomad"}).
		Description("Elastic training on Nomad: queues, resizes, progress and devices. Generated; import it and save your own copy.").
		Refresh("30s").Time("now-6h", "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("pool").Label("Pool").Datasource(source()).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(kolo_pool_slots, pool)")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*"))
	for _, c := range numbers {
		b = b.WithPanel(stat.NewPanelBuilder().Title(c.title).Datasource(source()).Unit(c.unit).Targets(targets(c)).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).Height(height / 2).Span(uint32(width / len(numbers))))
	}
	for _, r := range rows {
		b = b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, c := range r.charts {
			b = b.WithPanel(panel(c).Height(height).Span(uint32(width / len(r.charts))))
		}
	}
	d, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("building the dashboard: %w", err)
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding the dashboard: %w", err)
	}
	return append(text, '\n'), nil
}

// panel returns a chart over time.
func panel(c chart) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(c.title).Description(c.about).Datasource(source()).Unit(c.unit).Targets(targets(c))
	if c.unit != "none" { // a loss may be negative
		p = p.Min(0)
	}
	if c.stack {
		p = p.FillOpacity(30).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	return p
}
