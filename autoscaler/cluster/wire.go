// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
)

// The wire types hold the needed parts of Nomad's JSON, for objects of which there
// are thousands. Decoding them instead of the api types saves memory in a large
// cluster.

type wireAlloc struct {
	ID, Namespace, JobID, TaskGroup, NodeID string
	DesiredStatus, ClientStatus             string
	AllocatedResources                      *struct {
		TaskLifecycles map[string]*api.TaskLifecycle // nil for main tasks
		Tasks          map[string]struct {
			CPU struct {
				CPUShares     int `json:"CpuShares"` // includes reserved cores
				ReservedCores []uint16
			} `json:"Cpu"`
			Memory  struct{ MemoryMB int }
			Devices []struct {
				Vendor, Type, Name string
				DeviceIDs          []string
			}
		}
	}
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
}

type wireNode struct {
	ID, Name, Datacenter, NodeClass, NodePool string
	Attributes, Meta                          map[string]string
	Drain                                     bool
	DrainStrategy                             json.RawMessage // events have this in place of Drain
	SchedulingEligibility, Status             string
	Drivers                                   map[string]struct{ Detected, Healthy bool }
	NodeResources                             *struct {
		CPU struct {
			CPUShares int `json:"CpuShares"`
		} `json:"Cpu"`
		Memory  struct{ MemoryMB int }
		Devices []struct {
			Vendor, Type, Name string
			Attributes         map[string]wireAttribute
			Instances          []struct {
				ID                string
				Healthy           bool
				HealthDescription string
			}
		}
	}
	ReservedResources *struct {
		CPU struct {
			CPUShares int `json:"CpuShares"`
		} `json:"Cpu"`
		Memory struct{ MemoryMB int }
	}
	ModifyIndex uint64
}

type wireJob struct {
	ID, Namespace, Status       string
	JobSummary                  *wireSummary
	JobModifyIndex, ModifyIndex uint64
}

// wireSummary states how many workers of each group wait for a place. A blocked
// evaluation does not contain it.
type wireSummary struct {
	Summary     map[string]struct{ Queued int }
	ModifyIndex uint64
}

// wireEval is an evaluation. An evaluation that could not place everything is
// complete and names the blocked evaluation that waits for room; the job's summary
// changes with it.
type wireEval struct {
	ID, Namespace, JobID, Status string
	BlockedEval                  string
	ModifyIndex                  uint64
}

type wireEvents struct {
	Events []struct {
		Type    string
		Payload struct {
			Allocation *wireAlloc
			Node       *wireNode
			Job        *wireEventJob
			Evaluation *wireEval
		}
	}
}

// wireEventJob is a job in an event, with just enough to decide whether to read it.
type wireEventJob struct {
	ID, Namespace string
	TaskGroups    []struct {
		Scaling *struct{ Policy map[string]json.RawMessage }
	}
}

func (j *wireEventJob) asks() bool {
	for _, g := range j.TaskGroups {
		if g.Scaling != nil {
			if _, ok := g.Scaling.Policy[jobspec.Key]; ok {
				return true
			}
		}
	}
	return false
}

// ended reports whether an allocation with this client status no longer holds
// resources.
func ended(clientStatus string) bool {
	switch clientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}
