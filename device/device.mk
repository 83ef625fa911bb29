# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

.PHONY: e2e-device
e2e-device: nomad ## Run the GPU device plugin in a real Nomad, on an NVML stub (needs cc, no GPU)
	@$(call say,device plugin end-to-end tests matching '$(RUN)')
	@go test -tags e2e -count 1 -timeout 10m -v -run '$(RUN)' ./e2e/device

GPU_KIT := $(BIN)/gpu-kit

.PHONY: gpu
gpu: ## On a machine with an NVIDIA GPU: compare the device plugin with nvidia-smi, field by field
	@for needed in nvidia-smi:'a machine with an NVIDIA GPU' go:'Go (or make gpu-kit elsewhere)' cc:'a C compiler'; do \
	  command -v $${needed%%:*} >/dev/null || { echo "make gpu: there is no $${needed%%:*}; this needs $${needed#*:}" >&2; exit 1; }; \
	done
	@$(MAKE) $(GPU_KIT)
	@$(call say,device plugin on the real NVML)
	@$(GPU_KIT)/gpu.test -test.v -test.timeout 10m

# The tests of make gpu and the programs that they run, in one directory.
.PHONY: $(GPU_KIT)
$(GPU_KIT): compiler
	@$(call say,building $(GPU_KIT:$(CURDIR)/%=%))
	@rm -rf $(GPU_KIT)
	@mkdir -p $(GPU_KIT)
	@go build -trimpath -ldflags=-s -o $(GPU_KIT)/nomad-device-nvtopo ./device/cmd/nomad-device-nvtopo
	@go test -trimpath -ldflags=-s -tags gpu -c -o $(GPU_KIT)/gpu.test ./e2e/device
	@if [ -x $(BIN)/nomad ]; then strip -o $(GPU_KIT)/nomad $(BIN)/nomad; fi

.PHONY: gpu-kit
gpu-kit: $(GPU_KIT) ## Pack what make gpu runs, for a machine with a GPU and without Go
	@tar -czf $(GPU_KIT).tar.gz -C $(BIN) gpu-kit
	@$(call say,$$(du -h $(GPU_KIT:$(CURDIR)/%=%).tar.gz): unpack it there and run gpu-kit/gpu.test -test.v)
