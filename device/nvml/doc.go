// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nvml reads NVIDIA GPUs through the NVIDIA Management Library. It is
// the only package that imports go-nvml; the others use the small interfaces here.
//
//	monitor ──> Guard ──> Real ──> go-nvml ──dlopen──> libnvidia-ml.so.1 ──> driver
//	            (time     (facts,
//	             limits)   samples, events)
//
// The library may be missing, lack a function that newer ones have, or become
// unavailable with the driver while it is in use. So a symbol is looked up before
// its first call (calling one that is missing would end the process), a fact that
// a GPU or driver does not report is left out rather than an error, and [Guard]
// abandons a call that does not return.
package nvml
