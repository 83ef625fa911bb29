// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadapi is how a task reaches Nomad: through the Task API socket, with its
// own workload identity, and with errors that name what a jobspec lacks.
package nomadapi
