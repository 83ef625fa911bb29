// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package options declares PyTorch's own settings, each once, and turns them into the
// environment variables that kolo.torch, PyTorch and NCCL read.
//
//	jobspec's config ──> torch { … } ──> settings.Env ──> a slot's environment
//
// PyTorch's own defaults apply to settings that are not given. Horovod's settings are
// refused, with a hint at their counterparts.
package options
