// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e contains the tests that run a real, unmodified Horovod on a real Nomad
// cluster. They have the build tag e2e. `make e2e` sets up what they need and runs
// them; `make e2e RUN=TestScale` runs some of them.
//
// A test judges by the record of the training script (package train), not by Kolo's
// reports.
package e2e
