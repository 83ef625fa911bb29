// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package monitor watches the GPUs of this machine. It reads the inventory, listens
// to the driver's events, takes samples, decides the health of every unit, and
// publishes the result. It knows nothing of Nomad.
//
//	            one goroutine owns NVML (Monitor.Run)
//	  ┌──────────────────┬──────────────────┬─────────────────┐
//	refresh            listener           sample            check
//	(inventory and   (XIDs and ECC      (what changes     (is NVML there,
//	 layout, every    errors, as they    all the time)     how many GPUs,
//	 period)          happen)                              every interval)
//	  └──────────────────┴────────┬─────────┴─────────────────┘
//	                           health (a state machine per unit)
//	                              │ publish
//	                  View (immutable), Readings
//
// NVML and GPUs may fail, hang, disappear and return, and none of that ends the
// monitor. Problems are published as the health of units, and a GPU that was read
// once stays in the view.
package monitor
