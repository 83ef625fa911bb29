// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// private reports whether a variable is for the agent only: its configuration, and the
// task's workload identities. If an identity were in a script's environment, it would end
// up in crash reports and experiment trackers. A script that talks to Nomad reads the
// identity from its file, which Nomad renews. This is no protection against the script
// itself, which runs as the agent's user.
func private(name string) bool {
	return name == config.Variable || name == "NOMAD_TOKEN" || strings.HasPrefix(name, "NOMAD_TOKEN_")
}

// environment returns the environment of one slot: the framework's defaults, the task's
// own environment, the jobspec's settings, and the variables that the framework and
// progress reports need. Later ones override earlier ones.
func (h *Host) environment(s *slot, a elastic.Start) []string {
	defaults, fixed := s.endpoint.Environment(a.Assignment)
	env := map[string]string{"PYTHONUNBUFFERED": "1"}
	maps.Copy(env, defaults)
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && !private(k) {
			env[k] = v
		}
	}
	maps.Copy(env, h.o.Config.RunEnv)
	maps.Copy(env, h.o.Config.Env)
	maps.Copy(env, fixed)
	env["KOLO_PROGRESS_FILE"] = s.progress.path
	env["KOLO_STEP_FILE"] = s.progress.stepFile()
	env[inspect.Variable] = s.progress.stacksFile()
	env["KOLO_SLOT"] = strconv.Itoa(a.Assignment.LocalRank)
	env["KOLO_INCARNATION"] = strconv.Itoa(h.starts(a.Proc.Slot.Local))
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}
