// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package printable makes text of training processes and of other hosts safe to
// show: in task events, in the status and in logs.
package printable
