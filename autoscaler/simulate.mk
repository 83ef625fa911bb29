# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

KOLO_SHARED ?= ../shared

# What each policy is told, from nothing to everything.
SIMULATED = fifo(strict=true)@blind, fifo@blind, round-robin@blind, tiresias@blind, elastic-fifo@blind, dragon@blind, \
	gandiva@blind, weighted-fair@blind, elastic-fifo(efficiency=0.25)@blind, elastic-tiresias@blind, ffdl@blind, pollux@blind, afs-l@blind, kolo@blind, afs-l@kinds, kolo@kinds, \
	elastic-fifo(efficiency=0.25)@curves, elastic-tiresias@curves, ffdl@curves, pollux@curves, afs-l@curves, kolo@curves, \
	srjf@oracle, elastic-srjf@oracle, themis@oracle, optimus@oracle, oasis@oracle, elasticflow@oracle, afs-l@oracle, kolo@oracle

.PHONY: policies-table
policies-table: ## Simulate all policies on the Pollux workloads; writes the table in docs/research.md
	@go run ./autoscaler/cmd/kolo simulate -trace $(KOLO_SHARED)/data/pollux/jobs.csv \
		-loads 1,0.5,1.5,2 -resize-costs 30,1,5,120 -policy '$(SIMULATED)' -markdown .policies-table.md >/dev/null
	@sed -i -e '/<!-- policies-table: begin/,/<!-- policies-table: end/{//!d}' -e '/<!-- policies-table: begin/r .policies-table.md' docs/research.md
	@rm .policies-table.md

.PHONY: bench-policies
bench-policies: ## Measure one decision of each policy; writes the table in docs/benchmarks.md
	@go test -run '^$$' -bench Allocate ./autoscaler/policy/builtin | awk -f autoscaler/policy/builtin/bench.awk >.policies-bench.md
	@sed -i -e '/<!-- policies-bench: begin/,/<!-- policies-bench: end/{//!d}' -e '/<!-- policies-bench: begin/r .policies-bench.md' docs/benchmarks.md
	@rm .policies-bench.md

.PHONY: bench-simulator
bench-simulator: ## Benchmark the simulator, and beside the reference replay where it is found
	@go test -run '^$$' -bench 'FourWorkloads|BesideReference|LargeTrace' ./autoscaler/sim
