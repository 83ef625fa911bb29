// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package options declares Horovod's own settings, each once, and turns them into
// the environment variables that Horovod reads.
//
//	jobspec's config ──> gloo_timeout ──────────┐
//	                     horovod { … } ─────────┴──> settings.Env ──> a slot's environment
//
// Settings have the names of horovodrun's flags, with _ for -. Horovod's own defaults
// apply to settings that are not given, except for gloo_timeout, which is always set.
package options
