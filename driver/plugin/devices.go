// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// reservation is what device plugins gave for a task.
type reservation struct {
	Env     map[string]string
	Devices []*drivers.DeviceConfig
}

// reservedDevices lists the device nodes that the task's device plugins named.
// Nomad passes them to the first start of a task only, so they are kept beside
// it, with the reservation that they belong to.
func reservedDevices(c *drivers.TaskConfig, dirs privateDirs) ([]*drivers.DeviceConfig, error) {
	if len(c.Devices) > 0 {
		data, err := json.Marshal(reservation{c.DeviceEnv, c.Devices})
		if err != nil {
			return nil, fmt.Errorf("devices: %w", err)
		}
		if _, err := dirs.write(devicesName, data); err != nil {
			return nil, fmt.Errorf("devices: %w", err)
		}
		return slices.Clone(c.Devices), nil
	}
	data, err := os.ReadFile(filepath.Join(dirs.state, devicesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var earlier reservation
	if err := json.Unmarshal(data, &earlier); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	if len(c.DeviceEnv) == 0 || !maps.Equal(earlier.Env, c.DeviceEnv) {
		return nil, nil
	}
	return earlier.Devices, nil
}

// taskDevices lists all device nodes of an isolated task: those that device
// plugins named, and those of the reserved GPUs.
func taskDevices(root fs.FS, c *drivers.TaskConfig, gpus []string, dirs privateDirs) ([]*drivers.DeviceConfig, error) {
	given, err := reservedDevices(c, dirs)
	if err != nil {
		return nil, err
	}
	nodes, unknown := gpuNodes(root, gpus, given)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("device: cannot tell which device nodes belong to %s: neither did the device plugin name them, nor does the NVIDIA driver list the GPU in /proc/driver/nvidia/gpus; "+
			"check that the driver is loaded, and stop the allocation (nomad alloc stop) so that Nomad reserves again", strings.Join(unknown, ", "))
	}
	return mergeDevices(given, nodes), nil
}
