// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"flag"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Framework holds the parts of a training framework that `run` needs.
type Framework struct {
	framework.Framework
	// Program is the name of the program in messages.
	Program string
	Dialect Dialect
}

// Dialect adapts `run` to a framework's own launcher: the framework's settings, the
// launcher's flags, and its words in the help.
type Dialect struct {
	// usage is the help before the flags; PROGRAM stands for the program's name.
	usage string
	// launcher is the framework's launcher, whose flags run accepts as aliases.
	launcher string
	// bind declares the framework's own settings.
	bind func(*flags) []settings.Setting
	// inSeconds are the settings whose flags are numbers of seconds.
	inSeconds []string
	// unknown states what to do instead of using an unknown flag.
	unknown string
	// extra declares flags that are neither settings nor aliases; it may be nil.
	extra func(*flags, *flag.FlagSet)
}
