// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command monitoring writes Grafana's dashboard of Kolo, docs/monitoring/dashboard.json.
// Its tests check the dashboard and the alert rules with Prometheus' own parser and engine,
// and compare them with the metrics of docs/reference/metrics.md.
//
// It is a separate module, so that Kolo's programs do not depend on Prometheus and Grafana.
package main
