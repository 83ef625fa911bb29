// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package e2e holds the tests that run a real, unmodified Horovod on a real
// Nomad cluster. They are behind the build tag e2e; `make e2e` sets up what
// they need and runs them, `make e2e RUN=TestScale` some of them.
//
// What a test believes is what the training script recorded (package train),
// not what Kolo reports.
package e2e
