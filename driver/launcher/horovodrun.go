// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"github.com/kolo-nomad/kolo/driver/framework/horovod/options"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

const horovodrunUsage = `usage: PROGRAM run [flags] -- <command> [arguments]

Trains elastically on this machine, without Nomad. The flags are horovodrun's;
all hosts are this machine.

  PROGRAM run -np 2 -- python train.py
  PROGRAM run -np 2 --min-np 1 --max-np 4 \
      --host-discovery-script ./hosts.sh -- python train.py

The discovery script prints one host a line, "name" or "name:slots". It is run
every second, and the job grows and shrinks with what it prints.

Horovod's own settings, for which horovodrun has flags too, are taken from the
environment: HOROVOD_LOG_LEVEL=debug, HOROVOD_FUSION_THRESHOLD=33554432,
HOROVOD_TIMELINE=timeline.json and so on.

flags:
`

// glooTimeout is horovodrun's name for the setting gloo_timeout.
const glooTimeout = "gloo_timeout_seconds"

// coolDownFlag is horovodrun's flag that takes two numbers.
const coolDownFlag = "blacklist-cooldown-range"

// Horovodrun accepts the flags of Horovod's launcher.
var Horovodrun = Dialect{
	usage:    horovodrunUsage,
	launcher: "horovodrun",
	bind: func(o *flags) []settings.Setting {
		options.Presets(o.env)
		timeout := options.GlooTimeout(o.env)
		timeout.Name = glooTimeout
		return []settings.Setting{timeout}
	},
	inSeconds: []string{"elastic_timeout", glooTimeout},
	unknown:   "Horovod's own settings are given in the environment, such as HOROVOD_LOG_LEVEL",
}
