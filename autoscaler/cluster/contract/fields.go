// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// Fields lists, by request, the fields that the autoscaler reads from the answer, as paths
// in its JSON. In a path, * stands for each element of an array or object, and ? follows a
// field that Nomad omits if it has no value. Arrays may be empty, so paths below Devices.*
// are checked only if a node has devices.
var Fields = map[string][]string{
	"/v1/nodes": {
		"ID", "Name", "Datacenter", "NodeClass", "NodePool", "Drain", "SchedulingEligibility", "Status", "Drivers.*.Detected", "Drivers.*.Healthy",
		"NodeResources.Cpu.CpuShares", "NodeResources.Memory.MemoryMB", "NodeResources.Devices.*.Vendor", "NodeResources.Devices.*.Type",
		"NodeResources.Devices.*.Name", "NodeResources.Devices.*.Attributes.*.String?", "NodeResources.Devices.*.Attributes.*.Int?", "NodeResources.Devices.*.Instances.*.ID",
		"NodeResources.Devices.*.Instances.*.Healthy", "NodeResources.Devices.*.Instances.*.HealthDescription", "ReservedResources.Cpu.CpuShares", "ReservedResources.Memory.MemoryMB", "ModifyIndex",
	},
	"/v1/node/{}": {
		"ID", "Name", "Datacenter", "NodeClass", "NodePool", "Attributes.*", "Meta.*", "DrainStrategy", "SchedulingEligibility", "Status",
		"Drivers.*.Detected", "Drivers.*.Healthy", "NodeResources.Cpu.CpuShares", "NodeResources.Memory.MemoryMB", "ReservedResources.Cpu.CpuShares", "ModifyIndex",
	},
	"/v1/client/stats": {
		"DeviceStats.*.InstanceStats.*.Timestamp", "DeviceStats.*.InstanceStats.*.Stats.Attributes.*.Unit?",
		"DeviceStats.*.InstanceStats.*.Stats.Attributes.*.IntNumeratorVal?", "DeviceStats.*.InstanceStats.*.Stats.Attributes.*.FloatNumeratorVal?",
	},
	"/v1/allocations": append([]string{
		"AllocatedResources.TaskLifecycles.*", "AllocatedResources.Tasks.*.Cpu.CpuShares", "AllocatedResources.Tasks.*.Cpu.ReservedCores.*",
		"AllocatedResources.Tasks.*.Memory.MemoryMB", "AllocatedResources.Tasks.*.Devices.*.Vendor", "AllocatedResources.Tasks.*.Devices.*.Type",
		"AllocatedResources.Tasks.*.Devices.*.Name", "AllocatedResources.Tasks.*.Devices.*.DeviceIDs.*",
	}, allocFields...),
	"/v1/job/{}/allocations": allocFields, // no resources
	"/v1/allocation/{}": {
		"ID", "Namespace", "JobID", "DesiredStatus", "ClientStatus", "AllocatedResources.Shared.Networks.*.IP",
		"AllocatedResources.Shared.Networks.*.ReservedPorts?.*.Value", "AllocatedResources.Shared.Networks.*.DynamicPorts?.*.Value",
		"AllocatedResources.Shared.Ports.*.Value", "AllocatedResources.Shared.Ports.*.HostIP", "AllocatedResources.Tasks.*.Networks.*.IP",
		"AllocatedResources.Tasks.*.Networks.*.ReservedPorts?.*.Value", "AllocatedResources.Tasks.*.Networks.*.DynamicPorts?.*.Value",
	},
	"/v1/jobs": {"ID", "Namespace", "Status", "JobSummary.Summary.*.Queued", "JobSummary.ModifyIndex", "JobModifyIndex", "ModifyIndex"},
	"/v1/job/{}": {
		"ID", "Namespace", "Type", "Priority", "NodePool", "Datacenters.*", "Status", "Stop", "Version", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex",
		"TaskGroups.*.Name", "TaskGroups.*.Count", "TaskGroups.*.Tasks.*.Name", "TaskGroups.*.Tasks.*.Driver", "TaskGroups.*.Tasks.*.Resources.CPU",
		"TaskGroups.*.Tasks.*.Resources.MemoryMB", "TaskGroups.*.Scaling.Min", "TaskGroups.*.Scaling.Max", "TaskGroups.*.Scaling.Enabled",
		"TaskGroups.*.Scaling.Type", "TaskGroups.*.Scaling.Policy.kolo",
	},
	"/v1/job/{}/summary":   {"Summary.*.Queued", "ModifyIndex"},
	"/v1/evaluations":      {"ID", "Namespace", "JobID", "Status", "ModifyIndex"},
	"/v1/scaling/policies": {"Target.Namespace", "Target.Job"},
}

var allocFields = []string{
	"ID", "Namespace", "JobID", "TaskGroup", "NodeID", "DesiredStatus", "ClientStatus", "CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime",
}

// has asserts that an answer has the fields of a path.
func has(t *testing.T, path string, o object) {
	t.Helper()
	fields, known := Fields[path]
	must.True(t, known)
	for _, f := range fields {
		must.NoError(t, within(o, strings.Split(f, ".")), must.Sprintf("%s: field %s of %v", path, f, o))
	}
}

// within returns an error if a path leads to nothing. An object may be empty or null
// where * stands for its elements.
func within(v any, path []string) error {
	if len(path) == 0 {
		return nil
	}
	of, isObject := v.(object)
	if path[0] != "*" {
		name, optional := strings.CutSuffix(path[0], "?")
		next, there := of[name]
		if !there && !optional {
			return fmt.Errorf("no %s", path[0])
		}
		return within(next, path[1:])
	}
	all, isArray := v.([]any)
	if !isObject && !isArray && v != nil {
		return fmt.Errorf("%v has no elements", v)
	}
	for _, e := range of {
		all = append(all, e)
	}
	for _, e := range all {
		if err := within(e, path[1:]); err != nil {
			return err
		}
	}
	return nil
}
