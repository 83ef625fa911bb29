// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package hostdev finds what a task needs from the host to use a GPU: the nodes in
// /dev, including the nodes of MIG capabilities, and a CDI specification (Container
// Device Interface) if there is one.
//
//	inventory.Unit ──Nodes──> /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-caps/…
package hostdev
