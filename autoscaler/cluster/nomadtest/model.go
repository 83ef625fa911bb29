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
	ids            []string       // of its devices
	busy           map[string]int // utilization of devices in percent; unknown for the others
	taken          map[string]string
}

// Job is a batch job of one group, elastic or not, or of several.
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
	At       []string // addresses that its instances hold and register
	Claim    string   // another address that they register instead, "" for none

	// Unplaceable keeps every node from running its workers, as if it asked for a
	// volume that no node has.
	Unplaceable bool

	// Others are further groups of the job. With Elastic, each has an empty kolo block and a
	// minimum of 0.
	Others []Group

	create, change, index, version uint64
	submitted                      int64
}

// Group is one of several groups of a job. Its fields mean the same as those of Job.
type Group struct {
	Name        string
	Count, Max  int
	GPUs, CPU   int
	Unplaceable bool
}

// groups returns all groups of the job.
func (j *Job) groups() []Group {
	return append([]Group{{j.Group, j.Count, j.Max, j.GPUs, j.CPU, j.Unplaceable}}, j.Others...)
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
	created, modified    int64
}

// eval is a blocked evaluation or one of its successors. As in Nomad, a blocked
// evaluation does not state how many workers wait. The completed evaluation before it
// does, and so does the job's summary.
type eval struct {
	id, job  string
	priority int
	status   string
	trigger  string         // its cause
	blocked  string         // ID of the blocked evaluation that it created, "" for none
	queued   map[string]int // workers without a place by group; nil for a blocked evaluation
	version  uint64         // of the job
	index    uint64
}

func (a *Alloc) live() bool {
	return a.Client == api.AllocClientStatusRunning || a.Client == api.AllocClientStatusPending
}
