// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nvmltest gives tests a GPU machine without GPUs: a shared library
// with the C interface of libnvidia-ml.so.1, built with cc when a test needs
// it, and a [Machine] that tells it what to pretend and changes that while
// programs use it. A program under test loads it with dlopen by the same name
// as the real library, so nothing in it has to know.
//
//	test ──Machine──> machine file <──reads again when changed── libnvidia-ml.so.1
//	                                                                  ^ dlopen
//	                                       nomad-device-nvtopo ───────┘
//
// # Machine files
//
// A line is a key and its value; # begins a comment. Keys before the first gpu
// and after every hold for all GPUs below. See c/machine.c for the keys and
// machines/ for the machines: HGX H100 with NVSwitch, DGX-1 V100 with its
// hybrid cube mesh, two boards of four A100, a two-socket PCIe server, a tray
// of an NVL72 rack, a MIG-sliced A100, one T4, and none.
//
// Beside the library, a machine has the part of sysfs that tells where its PCI
// devices are, and cmd/nvidia-smi prints what nvidia-smi would.
//
// # What it does not show
//
// That the real library behaves as its documentation says. The stand-in was
// written from the public interface, and what real drivers do in trouble is not
// always in there.
package nvmltest
