// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package monitor watches the GPUs of this machine: it reads the inventory,
// listens to the driver's events, takes samples, decides on the health of every
// unit, and publishes the result. It knows nothing of Nomad.
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
// NVML and GPUs may fail, hang, disappear and return; none of it ends the
// monitor. What is wrong is published as the health of units, and a GPU that was
// read once stays in the view.
package monitor
