// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import "github.com/hashicorp/nomad/api"

// Node is a machine with one device group.
type Node struct {
	ID, Name, Pool string
	Model          string // of its devices
	GPUs, CPU      int
	State          string // ready, down
	Eligible       bool
	Drain          bool
	index          uint64
	used, usedCPU  int
	ids            []string // of its devices
	taken          map[string]string
}

// Job is a batch job of one elastic group, or of one that is not.
type Job struct {
	ID       string
	Pool     string // node pool, "" for default
	Group    string
	Count    int
	Min, Max int
	GPUs     int    // of one worker
	Model    string // of its GPUs, "" for any
	CPU      int
	Priority int
	Elastic  map[string]any // content of policy { }, nil for none
	Stop     bool
	Service  string   // of its group, "" for none
	At       []string // addresses that its instances hold and are registered at
	Claim    string   // another that they are registered at, "" for none

	// Unplaceable has no node take its workers, as if it asked for a volume that none
	// has.
	Unplaceable bool

	create, change, index, version uint64
	submitted                      int64
}

func (j *Job) pool() string {
	if j.Pool == "" {
		return "default"
	}
	return j.Pool
}

// Alloc is one worker.
type Alloc struct {
	ID, Job, Group, Node string
	N                    int // index in its name
	Client, Desired      string
	devices              []string
	model                string // of its devices
	cpu                  int
	create, index        uint64
	version              uint64
	created              int64
}

// eval is a blocked evaluation, or what became of one. As in Nomad, a blocked one does
// not state how many workers wait: the completed evaluation before it does, and the
// job's summary.
type eval struct {
	id, job  string
	priority int
	status   string
	trigger  string // what made it
	blocked  string // id of the blocked evaluation that came of it, "" for none
	queued   *int   // workers without a place; nil for a blocked evaluation
	version  uint64 // of the job
	index    uint64
}

func (a *Alloc) live() bool {
	return a.Client == api.AllocClientStatusRunning || a.Client == api.AllocClientStatusPending
}
