// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nvml reads NVIDIA GPUs through the NVIDIA Management Library. It is
// the one place that knows go-nvml; the plugin sees the small interfaces here.
//
//	plugin ──> Guard ──> Real ──> go-nvml ──dlopen──> libnvidia-ml.so.1 ──> driver
//	           (time     (facts,
//	            limits)   samples, events)
//
// The library may be missing, older than a function that is wanted, or go away
// with the driver while it is in use. So a symbol is looked up before its first
// call (calling one that is missing would end the process), a fact that a GPU
// or driver cannot tell is left out rather than an error, and a call that does
// not come back is left behind by [Guard].
package nvml
