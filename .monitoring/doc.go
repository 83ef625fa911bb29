// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command monitoring writes Grafana's dashboard of Kolo, docs/monitoring/dashboard.json. Its tests
// hold the dashboard and the alert rules against Prometheus' own parser and engine, and against
// the metrics of docs/reference/metrics.md.
//
// It is a module of its own, so that Kolo's programs do not depend on Prometheus and Grafana.
package main
