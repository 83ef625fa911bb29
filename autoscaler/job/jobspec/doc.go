// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package jobspec reads the elasticity of a job: the scaling blocks of its groups
// and, in them, policy { kolo { … } }.
//
//	group "workers" {
//	  scaling {
//	    enabled = true
//	    min     = 0          # 0: the job may wait, or be suspended, at no workers
//	    max     = 8
//	    policy {
//	      kolo {
//	        min       = 2    # workers while running
//	        preferred = 4    # what the job would ask for at a fixed size
//	        sizes     = [2, 4, 8]
//	      }
//	    }
//	  }
//	}
//
// Everything has a default; an empty kolo block is enough. Nomad stores the policy
// block without a schema, so this package finds the errors in it. An error never
// stops the autoscaler: Read returns all problems of a job at once, each with its
// remedy, and the caller does not manage that job.
//
// The package is pure: it reads an api.Job and makes no requests.
package jobspec
