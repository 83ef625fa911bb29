// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

func TestSimulate_Queues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kolo.hcl")
	must.NoError(t, os.WriteFile(path, []byte(`
pool "gpu" {
  queue "big" {
    namespaces = ["team-0"]
    guarantee  = 24
  }
  queue "small" {
    namespaces = ["team-1", "team-2"]
    policy "fifo" {}
  }
}`), 0o600))
	args := []string{"-config", path, "-synthetic-jobs", "40", "-synthetic-tenants", "4", "-policy", "kolo,elastic-fifo"}
	code, out, errOut := simulate(t, append(args, "-pool", "gpu")...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	for _, line := range []string{`\npolicy +queue +jobs +avg JCT s +avg wait s +GPU-hours +of entitled % +GPUs taken back +evictions\n`,
		`\nkolo +\* `, `\nkolo +big `, `\nkolo +small `, `\nelastic-fifo +big `} {
		must.RegexMatch(t, regexp.MustCompile(line), out)
	}
	_, again, _ := simulate(t, append(args, "-pool", "gpu", "-parallel", "1")...)
	must.Eq(t, out, again)

	code, _, errOut = simulate(t, args...)
	must.Eq(t, 2, code)
	must.StrContains(t, errOut, `pool "default" has no queues; name another with -pool`)
	code, _, errOut = simulate(t, append(args, "-pool", "gpu", "-tick", "60s")...)
	must.Eq(t, 2, code)
	must.StrContains(t, errOut, "there are no queues in ticks")
}

// Half-lives, budgets and costs of slots apply in the simulator, too.
func TestSimulate_QueuesOverTime(t *testing.T) {
	const halfLife, cost = "half_life = \"24h\"\n", "slot_cost = { \"*\" = 5 }\n"
	const budget = "budget {\n slot_hours = 60\n per = \"day\"\n}\n"
	outputs := map[string]bool{}
	for _, lines := range [][2]string{{"", ""}, {halfLife, ""}, {halfLife + cost, ""}, {"", budget}, {cost, budget}} {
		path := filepath.Join(t.TempDir(), "kolo.hcl")
		must.NoError(t, os.WriteFile(path, []byte("pool \"gpu\" {\n"+lines[0]+"queue \"a\" {\n namespaces = [\"team-0\", \"team-1\"]\n guarantee = 16\n"+lines[1]+`
  }
  queue "b" {
    namespaces = ["team-2"]
    weight     = 2
  }
}`), 0o600))
		code, out, errOut := simulate(t, "-config", path, "-pool", "gpu", "-synthetic-jobs", "60", "-synthetic-tenants", "3", "-policy", "elastic-fifo")
		must.Eq(t, 0, code, must.Sprint(errOut))
		outputs[out] = true
	}
	must.MapLen(t, 4, outputs, must.Sprint("one cost of all slots changes nothing but budgets"))
}

func TestSimulate_Elastic(t *testing.T) {
	args := []string{"-synthetic-jobs", "30", "-policy", "elastic-fifo", "-seeds", "2", "-elastic"}
	code, rigid, errOut := simulate(t, append(args, "0")...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	code, all, errOut := simulate(t, append(args, "1")...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	must.NotEq(t, rigid, all)
	code, _, errOut = simulate(t, append(args, "1.5")...)
	must.Eq(t, 2, code)
	must.StrContains(t, errOut, "-elastic 1.5: want a share from 0 to 1")
}
