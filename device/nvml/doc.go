// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nvml reads NVIDIA GPUs through the NVIDIA Management Library. It is the
// only package that imports go-nvml; the others use the small interfaces here.
//
//	monitor ──> Guard ──> Real ──> go-nvml ──dlopen──> libnvidia-ml.so.1 ──> driver
//	            (time     (facts,
//	             limits)   samples, events)
//
// The library may be missing, lack a function that newer versions have, or become
// unavailable together with the driver while it is in use. So the package looks up
// a symbol before its first call, because calling a missing one would end the
// process. A fact that a GPU or driver does not report is omitted and is not an
// error. [Guard] abandons a call that does not return.
package nvml
