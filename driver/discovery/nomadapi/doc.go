// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadapi gives a task access to Nomad, through the Task API socket and with its
// own workload identity. Its errors state what the jobspec lacks.
package nomadapi
