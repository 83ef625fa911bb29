// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"flag"

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

// coolDownFlag is horovodrun's flag that has two numbers.
const coolDownFlag = "blacklist-cooldown-range"

// Horovodrun has the flags of Horovod's launcher.
var Horovodrun = Dialect{
	usage: horovodrunUsage,
	bind: func(e settings.Env, _ *settings.Restart) []settings.Setting {
		options.Presets(e)
		return []settings.Setting{options.GlooTimeout(e)}
	},
	names: names(map[string][]string{
		"np": {"num-proc"}, "min_np": {"min-num-proc"}, "max_np": {"max-num-proc"}, "gloo_timeout": {"gloo-timeout-seconds"},
	}),
	inSeconds: []string{"elastic_timeout", "gloo_timeout"},
	unknown:   "Horovod's own settings are given in the environment, such as HOROVOD_LOG_LEVEL",
	extra: func(o *flags, f *flag.FlagSet) {
		f.StringVar(&o.iface, "network-interfaces", "lo", "same as -network-interface")
		f.Int("start-timeout", 0, "accepted and ignored: newcomers may take as long as they need")
		f.Bool("gloo", true, "accepted: Gloo is the only controller")
		f.Func(coolDownFlag, "accepted and ignored: failing slots are restarted with growing pauses, hosts are not blacklisted",
			func(string) error { return nil })
	},
}
