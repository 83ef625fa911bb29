// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package hostdev finds what a task needs of the host to use a GPU: the nodes
// in /dev, those of MIG capabilities included, and whether the host has a CDI
// specification (Container Device Interface) of its GPUs.
//
//	inventory.Unit ──Nodes──> /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-caps/…
package hostdev
