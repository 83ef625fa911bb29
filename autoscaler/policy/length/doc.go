// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package length estimates how much more service a job needs, from the services of similar
// jobs that have completed.
//
// Service is the GPU-seconds that a job held in Nomad. Reports of trainings do not count, so a
// false report cannot change the estimate for another job.
package length
