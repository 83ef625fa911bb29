// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

const (
	// Name is the name of the binary. The plugin block in a Nomad agent's
	// configuration refers to the plugin by this name.
	Name = "nomad-device-nvtopo"

	// pluginName is the name that the plugin reports to Nomad, the same as
	// nomad-device-nvidia's.
	pluginName = "nvidia-gpu"

	// Vendor and type are the same as nomad-device-nvidia's, so that jobs that ask
	// for nvidia/gpu find these devices.
	vendor     = "nvidia"
	deviceType = device.DeviceTypeGPU
)

// lineage is the prefix of the version that the plugin reports to Nomad. Of plugins
// with the same name, Nomad runs the one with the highest version.
// nomad-device-nvidia is at 1.1, and if both are installed, this one should run.
const lineage = "2."

func pluginInfo() *base.PluginInfoResponse {
	return &base.PluginInfoResponse{
		Type:              base.PluginTypeDevice,
		PluginApiVersions: []string{device.ApiVersion010},
		PluginVersion:     lineage + buildinfo.Version(),
		Name:              pluginName,
	}
}

// configSpec is the schema of the config block. It lacks the defaults of
// [defaultConfig], which are filled in when the configuration is decoded.
var configSpec = hclspec.NewObject(map[string]*hclspec.Spec{
	"enabled": hclspec.NewDefault(
		hclspec.NewAttr("enabled", "bool", false), hclspec.NewLiteral("true")),
	"ignored_gpu_ids": hclspec.NewDefault(
		hclspec.NewAttr("ignored_gpu_ids", "list(string)", false), hclspec.NewLiteral("[]")),
	"fingerprint_period": hclspec.NewAttr("fingerprint_period", "string", false),
	"group_by":           hclspec.NewAttr("group_by", "string", false),
	"prometheus_address": hclspec.NewAttr("prometheus_address", "string", false),
	"device_nodes": hclspec.NewDefault(
		hclspec.NewAttr("device_nodes", "bool", false), hclspec.NewLiteral("true")),
	"health": hclspec.NewBlock("health", false, hclspec.NewObject(map[string]*hclspec.Spec{
		"enabled": hclspec.NewDefault(
			hclspec.NewAttr("enabled", "bool", false), hclspec.NewLiteral("true")),
		"interval":      hclspec.NewAttr("interval", "string", false),
		"grace":         hclspec.NewAttr("grace", "string", false),
		"healthy_after": hclspec.NewAttr("healthy_after", "string", false),
		"xid_recovery":  hclspec.NewAttr("xid_recovery", "string", false),
		"ignored_xids":  hclspec.NewAttr("ignored_xids", "list(number)", false),
		"call_timeout":  hclspec.NewAttr("call_timeout", "string", false),
	})),
})
