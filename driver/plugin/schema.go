// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import "github.com/hashicorp/nomad/plugins/shared/hclspec"

// Both schemas leave defaults and required fields to this package: HCL's own
// message for a missing argument names neither the task nor the remedy.

// configSpec is the `config` of the agent configuration's `plugin` block.
func configSpec() *hclspec.Spec {
	return hclspec.NewObject(map[string]*hclspec.Spec{
		"enabled":              hclspec.NewDefault(boolean("enabled"), hclspec.NewLiteral("true")),
		"allow_isolation_none": boolean("allow_isolation_none"),
		"allow_root":           boolean("allow_root"),
		"python":               text("python"),
		"fingerprint_period":   text("fingerprint_period"),
		"fingerprint_timeout":  text("fingerprint_timeout"),
		"interface":            text("interface"),
		"bind_paths":           list("bind_paths"),
		"no_pivot_root":        boolean("no_pivot_root"),
		"denied_host_uids":     text("denied_host_uids"),
		"denied_host_gids":     text("denied_host_gids"),
		"executor_log_level":   text("executor_log_level"),
	})
}

// taskConfigSpec is the `config` of a task.
func taskConfigSpec() *hclspec.Spec {
	return hclspec.NewObject(map[string]*hclspec.Spec{
		"command":   text("command"),
		"args":      list("args"),
		"isolation": text("isolation"),

		"slots":  number("slots"),
		"np":     number("np"),
		"min_np": number("min_np"),
		"max_np": number("max_np"),

		"elastic_timeout": text("elastic_timeout"),
		"settle":          text("settle"),
		"gloo_timeout":    text("gloo_timeout"),
		"finish_timeout":  text("finish_timeout"),
		"stall_timeout":   text("stall_timeout"),
		"leave_timeout":   text("leave_timeout"),

		"reset_limit":   number("reset_limit"),
		"slot_restarts": number("slot_restarts"),
		"on_ring_lost":  text("on_ring_lost"),

		"service":   text("service"),
		"port":      text("port"),
		"interface": text("interface"),

		"horovod": hclspec.NewBlock("horovod", false, hclspec.NewObject(knobSpecs())),
	})
}

func text(name string) *hclspec.Spec    { return hclspec.NewAttr(name, "string", false) }
func number(name string) *hclspec.Spec  { return hclspec.NewAttr(name, "number", false) }
func boolean(name string) *hclspec.Spec { return hclspec.NewAttr(name, "bool", false) }
func list(name string) *hclspec.Spec    { return hclspec.NewAttr(name, "list(string)", false) }
