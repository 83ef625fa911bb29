// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package statusapi serves the status of a job over HTTP: /v1/status as JSON,
// /v1/health, and /metrics for Prometheus.
package statusapi
