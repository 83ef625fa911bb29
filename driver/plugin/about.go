// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/drivers/fsisolation"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

// handleVersion is the version of the state kept in task handles. A later plugin
// must be able to read earlier versions, because tasks outlive an upgrade.
const handleVersion = 1

func info(name string) *base.PluginInfoResponse {
	return &base.PluginInfoResponse{
		Type:              base.PluginTypeDriver,
		PluginApiVersions: []string{drivers.ApiVersion010},
		PluginVersion:     buildinfo.Version(),
		Name:              name,
	}
}

// capabilities reports "no file system isolation" although most tasks have it.
// Nomad then builds no chroot and puts host paths into the environment, and the
// driver makes these paths work inside the task as well (see the package comment).
// The price is that `nomad alloc exec` needs alloc-node-exec if ACLs are on.
//
// It offers group networks although it runs no task in one. That way the driver
// refuses them itself (see checkNetwork), and the user sees why and what to do
// instead.
//
// With dynamic users, Nomad makes up a user for each task whose job names none.
func capabilities(dynamicUsers bool) *drivers.Capabilities {
	return &drivers.Capabilities{
		SendSignals: true,
		Exec:        true,
		FSIsolation: fsisolation.None,
		NetIsolationModes: []drivers.NetIsolationMode{
			drivers.NetIsolationModeHost,
			drivers.NetIsolationModeGroup,
		},
		MountConfigs:         drivers.MountConfigSupportAll,
		DynamicWorkloadUsers: dynamicUsers,
	}
}
