// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/shoenig/test/must"
)

// The file is the output of this program, and Grafana's schema has each of its fields.
func TestDashboard(t *testing.T) {
	want, err := dashboardJSON()
	must.NoError(t, err)
	got, err := os.ReadFile(dashboardFile)
	must.NoError(t, err)
	must.EqOp(t, string(want), string(got), must.Sprint("run `make dashboard`"))

	plugins.RegisterDefaultPlugins()
	var d dashboard.Dashboard                          //nolint:staticcheck // SA1019: as in dashboardJSON
	if err := d.UnmarshalJSONStrict(got); err != nil { // an empty list of errors is not nil
		must.EqOp(t, "", err.Error())
	}
	must.NoError(t, d.Validate())
}

// metrics returns the names of the metrics in an expression.
func metrics(t *testing.T, expr string) []string {
	t.Helper()
	// Grafana replaces its variables before Prometheus sees the query.
	expr = strings.NewReplacer("$__rate_interval", "5m", "$pool", ".*").Replace(expr)
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	must.NoError(t, err, must.Sprint(expr))
	var out []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			out = append(out, v.Name)
		}
		return nil
	})
	return out
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")

// The reference lists every metric of the dashboard and of the alerts. The programs' own
// tests compare the reference with their code.
func TestMetricsExist(t *testing.T) {
	reference, err := os.ReadFile("../docs/reference/metrics.md")
	must.NoError(t, err)
	known := map[string]bool{}
	for _, row := range metricRow.FindAllSubmatch(reference, -1) {
		known[string(row[1])] = true
	}
	must.Greater(t, 40, len(known))

	check := func(expr string) {
		names := metrics(t, expr)
		must.SliceNotEmpty(t, names)
		for _, name := range names {
			base := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(name, "")
			must.True(t, known[name] || known[base], must.Sprintf("%s is not in docs/reference/metrics.md: %s", name, expr))
		}
	}
	for _, r := range alerts(t) {
		check(r.Expr)
	}
	for _, c := range numbers {
		check(c.queries[0].expr)
	}
	for _, r := range rows {
		for _, c := range r.charts {
			for _, q := range c.queries {
				check(q.expr)
			}
		}
	}
}
