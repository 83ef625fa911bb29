# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

.PHONY: e2e-device
e2e-device: nomad ## Run the GPU device plugin in a real Nomad, on a stand-in NVML (needs cc, no GPU)
	@$(call say,device plugin end-to-end tests matching '$(RUN)')
	@go test -tags e2e -count 1 -timeout 10m -v -run '$(RUN)' ./e2e/device

.PHONY: gpu
gpu: ## On a machine with an NVIDIA GPU: compare the device plugin with nvidia-smi, field by field
	@for needed in nvidia-smi:'a machine with an NVIDIA GPU' go:Go cc:'a C compiler'; do \
	  command -v $${needed%%:*} >/dev/null || { echo "make gpu: there is no $${needed%%:*}; this needs $${needed#*:}" >&2; exit 1; }; \
	done
	@$(call say,device plugin on the real NVML)
	@go test -tags gpu -count 1 -timeout 10m -v -run TestGPU ./e2e/device
