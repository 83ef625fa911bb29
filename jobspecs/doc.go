// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package jobspecs holds no code: this directory has job specifications and
// agent configurations to start from, and tests that they parse. In e2e, Nomad
// validates all of them, and the one for Horovod runs as it stands.
package jobspecs
