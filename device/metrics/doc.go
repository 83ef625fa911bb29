// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package metrics serves the monitor's readings and the health of units as
// Prometheus metrics.
//
//	Prometheus ──GET /metrics──> collector ──Measure, Latest──> monitor.Monitor
package metrics
