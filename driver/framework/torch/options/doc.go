// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package options declares PyTorch's own settings, each once, and turns them into the
// environment variables that kolo.torch, PyTorch and NCCL read.
//
//	jobspec's config ──> torch { … } ──> settings.Env ──> a slot's environment
//
// What is not set is left to PyTorch. Horovod's settings are refused with their
// counterparts.
package options
