# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

.PHONY: e2e-autoscaler
e2e-autoscaler: ## Test the autoscaler against a real Nomad
	go test -tags e2e -count 1 -timeout 15m -v ./e2e/autoscaler

.PHONY: bench-autoscaler
bench-autoscaler: ## Measure the autoscaler with up to 10,000 jobs and nodes
	KOLO_SCALE=1 go test ./autoscaler/controller -run '^$$' -bench Scale -benchtime 1x
