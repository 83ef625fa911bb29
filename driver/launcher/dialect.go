// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"flag"

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

// Dialect adapts `run` to a framework's own launcher: the framework's settings, the
// launcher's flags, and its words in the help.
type Dialect struct {
	// usage is what the help has before the flags; PROGRAM stands for the name.
	usage string
	// launcher is that of the framework, whose flags run takes as aliases.
	launcher string
	// bind declares the framework's own settings.
	bind func(*flags) []settings.Setting
	// inSeconds are the settings whose flags are numbers of seconds.
	inSeconds []string
	// unknown is what to do instead of a flag that is not known.
	unknown string
	// extra declares flags that are no settings and no aliases; may be nil.
	extra func(*flags, *flag.FlagSet)
}
