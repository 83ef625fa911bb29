// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package length estimates how much more service a job needs, from the services of similar
// jobs that have completed.
//
// Service is counted in GPU-seconds that a job held, as Nomad shows them, and not in work
// that a training reports. So a job cannot change the estimate of another one by a false
// report.
package length
