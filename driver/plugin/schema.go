// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"strconv"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Both schemas leave defaults and required fields to this package, because HCL's
// own message for a missing argument names neither the task nor the remedy.

// configSpec returns the schema of `config` in the agent configuration's `plugin`
// block.
func configSpec() *hclspec.Spec {
	return hclspec.NewObject(map[string]*hclspec.Spec{
		"enabled":              hclspec.NewDefault(boolean("enabled"), hclspec.NewLiteral("true")),
		"allow_isolation_none": boolean("allow_isolation_none"),
		"allow_root":           boolean("allow_root"),
		"dynamic_users":        hclspec.NewDefault(boolean("dynamic_users"), hclspec.NewLiteral("true")),
		"pids_limit":           hclspec.NewDefault(number("pids_limit"), hclspec.NewLiteral(strconv.Itoa(defaultPidsLimit))),
		"python":               text("python"),
		"fingerprint_period":   text("fingerprint_period"),
		"fingerprint_timeout":  text("fingerprint_timeout"),
		"interface":            text("interface"),
		"bind_paths":           texts("bind_paths"),
		"devices":              texts("devices"),
		"memlock":              text("memlock"),
		"no_pivot_root":        boolean("no_pivot_root"),
		"denied_host_uids":     text("denied_host_uids"),
		"denied_host_gids":     text("denied_host_gids"),
		"job_mapping_dir":      text("job_mapping_dir"),
		"executor_log_level":   text("executor_log_level"),
	})
}

// taskConfigSpec returns the schema of a task's `config`. It includes earlier names
// of settings and those of other frameworks, so that they can be refused with the
// right names.
func taskConfigSpec(framework Framework) *hclspec.Spec {
	own, blocks := framework.Settings()
	fields := specs(append(taskSettings(), own...))
	for old := range settings.Renamed {
		fields[old] = text(old)
	}
	foreign, foreignBlocks := framework.Foreign()
	for _, name := range foreign {
		fields[name] = text(name)
	}
	for _, name := range foreignBlocks {
		fields[name] = hclspec.NewBlockAttrs(name, "string", false)
	}
	for name, block := range blocks {
		fields[name] = hclspec.NewBlock(name, false, hclspec.NewObject(specs(block)))
	}
	return hclspec.NewObject(fields)
}

// specs returns the schema of settings.
func specs(list []settings.Setting) map[string]*hclspec.Spec {
	kinds := map[settings.Kind]func(string) *hclspec.Spec{
		settings.Text: text, settings.Number: number, settings.Bool: boolean, settings.List: texts,
	}
	out := map[string]*hclspec.Spec{}
	for _, s := range list {
		out[s.Name] = kinds[s.Kind](s.Name)
	}
	return out
}

func text(name string) *hclspec.Spec    { return hclspec.NewAttr(name, "string", false) }
func number(name string) *hclspec.Spec  { return hclspec.NewAttr(name, "number", false) }
func boolean(name string) *hclspec.Spec { return hclspec.NewAttr(name, "bool", false) }
func texts(name string) *hclspec.Spec   { return hclspec.NewAttr(name, "list(string)", false) }
