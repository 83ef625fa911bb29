// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// PoolTopology is the topology of one node pool in the answer to GET /v1/topology.
type PoolTopology struct {
	Pool   string   `json:"pool"`
	Levels []string `json:"levels"` // outermost first
	topology.Amount
	Domains  []Domain           `json:"domains"`          // of the outermost level
	Unread   int                `json:"unread,omitempty"` // nodes whose values have not been read yet
	Problems []topology.Problem `json:"problems,omitempty"`
	Jobs     []JobSpread        `json:"jobs"` // jobs that have workers
}

// Domain is one value of a level, within a domain of the next outer level.
type Domain struct {
	Name    string `json:"name"`              // "" if Missing is set
	Missing bool   `json:"missing,omitempty"` // contains the nodes without a value
	Nodes   int    `json:"nodes"`
	topology.Amount
	Domains []Domain `json:"domains,omitempty"` // of the next inner level
}

// JobSpread is how far apart the workers of a job are.
type JobSpread struct {
	identity.JobKey
	Workers int `json:"workers"` // workers on known nodes
	// Level is the outermost level at which the workers are in several domains, and
	// Domains is the number of these. Level is "" if all workers are in one domain
	// of the innermost level.
	Level   string `json:"level"`
	Domains int    `json:"domains"`
	// Cost is the mean distance of two workers; 0 for a single worker.
	Cost  float64    `json:"cost"`
	Parts []JobShare `json:"parts"` // by domain of Level, or of the innermost level
}

// JobShare is the number of a job's workers in one domain.
type JobShare struct {
	Path    []string `json:"path"` // names, outermost first; "" means no value
	Workers int      `json:"workers"`
}
