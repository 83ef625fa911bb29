// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"flag"
	"maps"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Framework is a training framework as `run` needs it.
type Framework struct {
	framework.Framework
	// Program is the name of the program in messages.
	Program string
	Dialect Dialect
}

// Dialect is what `run` has in common with a framework's own launcher: flags by its
// names, and its words in the help.
type Dialect struct {
	// usage is what the help has before the flags; PROGRAM stands for the name.
	usage string
	// bind declares the framework's own settings, bound to the variables of slots and
	// to how processes are replaced.
	bind func(settings.Env, *settings.Restart) []settings.Setting
	// names are the flags of settings, the first of each the one that is shown. A
	// setting without a name is no flag.
	names map[string][]string
	// inSeconds are the settings whose flags are numbers of seconds.
	inSeconds []string
	// unknown is what to do instead of a flag that is not known.
	unknown string
	// extra declares flags that are no settings.
	extra func(*flags, *flag.FlagSet)
}

// names are the flags that every dialect has, and more of one.
func names(more map[string][]string) map[string][]string {
	all := map[string][]string{
		"np": {"np"}, "min_np": {"min-np"}, "max_np": {"max-np"}, "reset_limit": {"reset-limit"}, "slot_restarts": {"slot-restarts"},
		"on_ring_lost": {"on-ring-lost"}, "elastic_timeout": {"elastic-timeout"}, "debounce": {"debounce"}, "stall_timeout": {"stall-timeout"},
		"commit_timeout": {"commit-timeout"},
	}
	for setting := range maps.Keys(more) {
		all[setting] = append(all[setting], more[setting]...)
	}
	return all
}
