// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"errors"
	"flag"
	"regexp"
	"strconv"
	"strings"
)

// alias maps other names to a flag of run.
type alias struct {
	flag  string // of run, with the same meaning
	names string // separated by spaces
}

// Values of alias.flag for names that are accepted and ignored, with a value and without.
const ignored, ignoredSwitch = "", "-"

// aliases are the additional flags that run accepts, by the launcher that they come from.
var aliases = map[string][]alias{
	"horovodrun": {
		{"slots-per-host", "slots"}, {"np", "num-proc"}, {"min-np", "min-num-proc"}, {"max-np", "max-num-proc"}, {"network-interface", "network-interfaces"},
		{ignored, "start-timeout " + coolDownFlag}, {ignoredSwitch, "gloo"},
	},
	"torchrun": { // "_" works as "-", too
		{"slot-restarts", "max-restarts max_restarts"}, {"slots-per-host", "slots nproc-per-node nproc_per_node"}, {"output-filename", "log-dir log_dir"},
		{ignoredSwitch, "standalone no-python no_python"},
		{ignored, "rdzv-backend rdzv_backend rdzv-endpoint rdzv_endpoint rdzv-id rdzv_id rdzv-conf rdzv_conf monitor-interval monitor_interval " +
			"start-method start_method role node-rank node_rank master-addr master_addr master-port master_port local-addr local_addr " +
			"redirects r tee t local-ranks-filter local_ranks_filter"},
	},
}

// checks are the launchers' checks of the values of ignored flags, by the flag's name
// written with "-". Other ignored flags may have any value.
var checks = map[string]func(string) error{
	"start-timeout": checkWhole, coolDownFlag: checkWhole, "node-rank": checkWhole, "master-port": checkWhole,
	"monitor-interval":   checkNumber,
	"rdzv-conf":          matches(`|[^,=]+=[^,]+(,[^,=]+=[^,]+)*`, "must be settings, such as timeout=60,is_host=1"),
	"start-method":       matches(`spawn|fork|forkserver`, "must be spawn, fork or forkserver"),
	"local-ranks-filter": matches(`|\d+(,\d+)*`, "must be local ranks, such as 0,2"),
	"redirects":          checkStreams, "r": checkStreams, "tee": checkStreams, "t": checkStreams,
}

func checkWhole(value string) error {
	if _, err := strconv.Atoi(value); err != nil {
		return errors.New("must be a whole number")
	}
	return nil
}

func checkNumber(value string) error {
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		return errors.New("must be a number")
	}
	return nil
}

var checkStreams = matches(`[0-3]|(\d:[0-3],)*\d:[0-3]`, "must be from 0 to 3, or such a number for each local rank: 0:1,1:3")

// matches returns a check that the whole value matches a pattern.
func matches(pattern, remedy string) func(string) error {
	whole := regexp.MustCompile("^(" + pattern + ")$")
	return func(value string) error {
		if !whole.MatchString(value) {
			return errors.New(remedy)
		}
		return nil
	}
}

// ignoredUsage is the help text of an ignored flag, which is not shown.
const ignoredUsage = "accepted and ignored"

// addAliases adds a launcher's aliases for run's flags, which f already has.
func addAliases(f *flag.FlagSet, launcher string) {
	for _, a := range aliases[launcher] {
		for name := range strings.FieldsSeq(a.names) {
			switch a.flag {
			case ignored:
				f.Func(name, ignoredUsage, func(value string) error {
					if check := checks[strings.ReplaceAll(name, "_", "-")]; check != nil {
						return check(value)
					}
					return nil
				})
			case ignoredSwitch:
				f.Bool(name, true, ignoredUsage)
			default:
				value := f.Lookup(a.flag).Value
				if s, ok := value.(*settingFlag); ok { // its errors name the flag as the user wrote it
					value = &settingFlag{s.Setting, name, s.seconds, s.wrong}
				}
				f.Var(value, name, "same as -"+a.flag)
			}
		}
	}
}
