// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// PoolTopology is one node pool in the answer to GET /v1/topology.
type PoolTopology struct {
	Pool   string   `json:"pool"`
	Levels []string `json:"levels"` // outermost first
	topology.Amount
	Domains  []Domain           `json:"domains"`          // of the outermost level
	Unread   int                `json:"unread,omitempty"` // nodes whose values have not been read yet
	Problems []topology.Problem `json:"problems,omitempty"`
	Jobs     []JobSpread        `json:"jobs"` // with workers
}

// Domain is one value of a level, below a domain of the level outside.
type Domain struct {
	Name    string `json:"name"`              // "" where Missing
	Missing bool   `json:"missing,omitempty"` // holds nodes without a value
	Nodes   int    `json:"nodes"`
	topology.Amount
	Domains []Domain `json:"domains,omitempty"` // of the level inside
}

// JobSpread is how far apart the workers of a job are.
type JobSpread struct {
	identity.JobKey
	Workers int `json:"workers"` // whose node is known
	// Level is the outermost level at which the workers are in several domains, ""
	// where they are all in one of the innermost, and Domains how many they are in.
	Level   string `json:"level"`
	Domains int    `json:"domains"`
	// Cost is the mean distance of two workers; 0 with one.
	Cost  float64    `json:"cost"`
	Parts []JobShare `json:"parts"` // by domain of Level, or of the innermost
}

// JobShare is the workers of a job in one domain.
type JobShare struct {
	Path    []string `json:"path"` // names, outermost first; "" is no value
	Workers int      `json:"workers"`
}
