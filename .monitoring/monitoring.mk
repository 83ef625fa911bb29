# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

.PHONY: dashboard
dashboard: compiler ## Write docs/monitoring/dashboard.json for Grafana from .monitoring/dashboard.go
	@cd .monitoring && go run .

.PHONY: test-monitoring
test-monitoring: compiler ## Test the alert rules and the dashboard with Prometheus' parser and engine, and Grafana's schema
	@$(call say,.monitoring: go vet and go test)
	@cd .monitoring && go vet ./... && go test -count 1 ./... # a cached result ignores docs, which lie outside of the module
