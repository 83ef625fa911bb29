// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"fmt"
	"net"
	"path"
	"strconv"

	"github.com/hashicorp/nomad/api"
)

func (n *Node) wire() map[string]any {
	devices := []any{}
	if len(n.ids) > 0 {
		instances := []any{}
		for _, id := range n.ids {
			instances = append(instances, map[string]any{"ID": id, "Healthy": true, "HealthDescription": ""})
		}
		devices = append(devices, map[string]any{"Vendor": "nvidia", "Type": "gpu", "Name": n.Model, "Attributes": map[string]any{}, "Instances": instances})
	}
	eligibility := api.NodeSchedulingIneligible
	if n.Eligible && !n.Drain {
		eligibility = api.NodeSchedulingEligible
	}
	return map[string]any{
		"ID": n.ID, "Name": n.Name, "Datacenter": "dc1", "NodeClass": "", "NodePool": n.Pool, "Status": n.State, "Drain": n.Drain,
		"SchedulingEligibility": eligibility, "ModifyIndex": n.index,
		"Drivers":           map[string]any{"raw_exec": map[string]any{"Detected": true, "Healthy": true}},
		"NodeResources":     map[string]any{"Cpu": map[string]any{"CpuShares": n.CPU}, "Memory": map[string]any{"MemoryMB": 1 << 20}, "Devices": devices},
		"ReservedResources": map[string]any{"Cpu": map[string]any{"CpuShares": 0}, "Memory": map[string]any{"MemoryMB": 0}},
	}
}

// detail returns the node as in GET /v1/node/:id and in events.
func (n *Node) detail() map[string]any {
	out := n.wire()
	delete(out, "Drain")
	out["Attributes"], out["Meta"], out["DrainStrategy"] = map[string]string{"kernel.name": "linux"}, map[string]string{}, nil
	if n.Drain {
		out["DrainStrategy"] = map[string]any{"Deadline": 0}
	}
	return out
}

func (a *Alloc) wire() map[string]any {
	task := map[string]any{"Cpu": map[string]any{"CpuShares": a.cpu, "ReservedCores": nil}, "Memory": map[string]any{"MemoryMB": 64}, "Networks": nil}
	if len(a.devices) > 0 {
		task["Devices"] = []any{map[string]any{"Vendor": "nvidia", "Type": "gpu", "Name": a.model, "DeviceIDs": a.devices}}
	}
	shared := map[string]any{"Networks": nil, "Ports": nil}
	return map[string]any{
		"ID": a.ID, "Namespace": "default", "JobID": a.Job, "TaskGroup": a.Group, "NodeID": a.Node,
		"Name": fmt.Sprintf("%s.%s[%d]", a.Job, a.Group, a.N), "DesiredStatus": a.Desired, "ClientStatus": a.Client,
		"AllocatedResources": map[string]any{"Tasks": map[string]any{"t": task}, "TaskLifecycles": map[string]any{"t": nil}, "Shared": shared},
		"CreateIndex":        a.create, "ModifyIndex": a.index, "CreateTime": a.created, "ModifyTime": a.modified,
	}
}

// at returns the allocation with a port that Nomad reserved for it.
func (a *Alloc) at(address string) map[string]any {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port) // 0 is as good as any that is none
	out := a.wire()
	out["AllocatedResources"].(map[string]any)["Shared"] = map[string]any{
		"Networks": []any{map[string]any{"IP": host, "DynamicPorts": []any{map[string]any{"Label": "kolo", "Value": n}}}},
		"Ports":    []any{map[string]any{"Label": "kolo", "Value": n, "HostIP": host}},
	}
	return out
}

// details returns the job as in GET /v1/job/:id. The caller holds c.mu.
func (c *Cluster) details(j *Job) map[string]any {
	var groups []any
	for i, g := range j.groups() {
		resources := map[string]any{"CPU": g.CPU, "MemoryMB": 64}
		if g.GPUs > 0 {
			resources["Devices"] = []any{map[string]any{"Name": path.Join("nvidia/gpu", j.Model), "Count": g.GPUs}}
		}
		group := map[string]any{
			"Name": g.Name, "Count": g.Count,
			"Tasks": []any{map[string]any{"Name": "t", "Driver": "raw_exec", "Resources": resources}},
		}
		least, policy := 0, map[string]any{"kolo": []any{map[string]any{}}}
		if i == 0 {
			least, policy = j.Min, j.Elastic
			if j.Service != "" {
				group["Services"] = []any{map[string]any{"Name": j.Service, "Provider": "nomad"}}
			}
		}
		if j.Elastic != nil {
			group["Scaling"] = map[string]any{"Min": least, "Max": g.Max, "Enabled": !j.Stop, "Type": "horizontal", "Policy": policy}
		}
		groups = append(groups, group)
	}
	return map[string]any{
		"ID": j.ID, "Name": j.ID, "Namespace": "default", "Type": "batch", "Priority": j.Priority, "NodePool": j.pool(),
		"Datacenters": []string{"*"}, "TaskGroups": groups, "Stop": j.Stop, "Status": c.status(j), "Version": j.version,
		"SubmitTime": j.submitted, "CreateIndex": j.create, "ModifyIndex": j.index, "JobModifyIndex": j.change,
	}
}

// stub returns the job as in GET /v1/jobs. The caller holds c.mu.
func (c *Cluster) stub(j *Job) map[string]any {
	return map[string]any{
		"ID": j.ID, "Name": j.ID, "Namespace": "default", "Type": "batch", "Priority": j.Priority, "Stop": j.Stop, "Status": c.status(j),
		"SubmitTime": j.submitted, "CreateIndex": j.create, "ModifyIndex": j.index, "JobModifyIndex": j.change,
		"JobSummary": c.summary(j),
	}
}

// status returns Nomad's status of a job. A job without workers is dead, whether it
// has ended or is parked at a count of 0. The caller holds c.mu.
func (c *Cluster) status(j *Job) string {
	switch {
	case len(c.workers(j.ID)) > 0:
		return "running"
	case c.evals[j.ID] != nil:
		return "pending"
	}
	return "dead"
}

// summary returns the job's summary as in GET /v1/job/:id/summary. The caller holds
// c.mu.
func (c *Cluster) summary(j *Job) map[string]any {
	all := map[string]map[string]int{}
	for _, g := range j.groups() {
		all[g.Name] = map[string]int{"Queued": c.queued[j.ID][g.Name], "Complete": 0, "Failed": 0, "Running": 0, "Starting": 0, "Lost": 0, "Unknown": 0}
	}
	for _, a := range c.byJob[j.ID] {
		of := all[a.Group]
		if of == nil {
			continue // of an earlier version of the job
		}
		of[map[string]string{
			api.AllocClientStatusComplete: "Complete", api.AllocClientStatusFailed: "Failed", api.AllocClientStatusRunning: "Running",
			api.AllocClientStatusPending: "Starting", api.AllocClientStatusLost: "Lost",
		}[a.Client]]++
	}
	return map[string]any{
		"JobID": j.ID, "Namespace": "default", "Summary": all, "CreateIndex": j.create, "ModifyIndex": max(j.create, c.counts[j.ID]),
	}
}

func (e *eval) wire() map[string]any {
	out := map[string]any{
		"ID": e.id, "Namespace": "default", "JobID": e.job, "Status": e.status, "Priority": e.priority, "TriggeredBy": e.trigger,
		"BlockedEval": e.blocked, "ModifyIndex": e.index,
	}
	if e.queued != nil {
		out["QueuedAllocations"] = e.queued
	}
	return out
}
