// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nvmltest is a test fixture: a GPU machine without GPUs, for unit tests
// and for e2e. It consists of a stub of libnvidia-ml.so.1 with NVML's C interface,
// built with cc when a test needs it, and a [Machine], which describes what the
// stub simulates and can change that while programs use it. A program under test
// loads the stub with dlopen by the same name as the real library, so it needs no
// change.
//
//	test ──Machine──> machine file <──reads again when changed── libnvidia-ml.so.1
//	                                                                  ^ dlopen
//	                                       nomad-device-nvtopo ───────┘
//
// # Machine files
//
// A line is a key and its value; # begins a comment. Keys before the first gpu line
// and after the every line apply to all GPUs below. See c/machine.c for the keys
// and machines/ for the machines: HGX H100 with NVSwitch, DGX-1 V100 with its
// hybrid cube mesh, two boards of four A100, a two-socket PCIe server, a tray of an
// NVL72 rack, a MIG-sliced A100, one T4, and a machine without GPUs.
//
// A machine also includes the part of sysfs that describes its PCI devices.
// cmd/nvidia-smi prints what the real nvidia-smi would print.
//
// # Limits
//
// The fixture cannot show that the real library behaves as documented. The stub was
// written from the public interface, which does not always define how real drivers
// fail.
package nvmltest
