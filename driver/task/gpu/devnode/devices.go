// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package devnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// Reservation holds the device nodes and variables that device plugins assigned
// to a task.
type Reservation struct {
	Env   map[string]string
	Given []*drivers.DeviceConfig `json:"Devices"`
}

// Devices returns all device nodes of an isolated task: the nodes that device
// plugins named, and the nodes of the reserved GPUs (UUIDs). root is the client's
// file system.
//
// Nomad passes the plugins' nodes only to the first start of a task, so Devices
// keeps them in file, together with the reservation that they belong to.
func (r Reservation) Devices(root fs.FS, gpus []string, file string) ([]*drivers.DeviceConfig, error) {
	given, err := r.recall(file)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	nodes, unknown := nodesOf(root, gpus, given)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("device: cannot determine which device nodes belong to %s: the device plugin has not named them, and the NVIDIA driver does not list the GPU in /proc/driver/nvidia/gpus; "+
			"check that the driver is loaded, and stop the allocation (nomad alloc stop) so that Nomad reserves again", strings.Join(unknown, ", "))
	}
	return merge(given, nodes), nil
}

// recall returns the devices that were assigned, now or at the first start.
func (r Reservation) recall(file string) ([]*drivers.DeviceConfig, error) {
	if len(r.Given) > 0 {
		data, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		return slices.Clone(r.Given), os.WriteFile(file, data, 0o644)
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var earlier Reservation
	if err := json.Unmarshal(data, &earlier); err != nil {
		return nil, err
	}
	if len(r.Env) == 0 || !maps.Equal(earlier.Env, r.Env) {
		return nil, nil
	}
	return earlier.Given, nil
}
