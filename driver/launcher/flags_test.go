// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestParseFlags(t *testing.T) {
	o, err := parseFlags(horovodrun, []string{"-np", "2", "--min-np", "1", "--max-np=4", "--host-discovery-script", "true",
		"--blacklist-cooldown-range", "1", "5", "--gloo", "--", "sh", "-c", "exit 0"}, &bytes.Buffer{})
	must.NoError(t, err)
	must.Eq(t, []int{2, 1, 4}, []int{o.NP, o.MinNP, o.MaxNP})
	must.Eq(t, []string{"sh", "-c", "exit 0"}, o.command)

	// Without other flags, the launcher trains like a task.
	var task settings.Training
	must.SliceEmpty(t, task.Read(map[string]any{"np": 2, "min_np": 1, "max_np": 4}, 0))
	must.Eq(t, task, o.Training)
	must.Eq(t, settings.Env{"HOROVOD_GLOO_TIMEOUT_SECONDS": "30", "HOROVOD_CACHE_CAPACITY": "0"}, o.env)

	cooldown := "--blacklist-cooldown-range"
	for _, before := range [][]string{{"--"}, {}, {"-np", "1", "--"}, {cooldown, "3", "4"}, {cooldown, "3", "4", "--"}, {cooldown, "3", "4", "-np", "1"}} {
		o, err = parseFlags(horovodrun, append(before, "sh", cooldown, "1", "2"), &bytes.Buffer{})
		must.NoError(t, err)
		must.Eq(t, []string{"sh", cooldown, "1", "2"}, o.command, must.Sprint("what comes after the command is its own: ", before))
	}

	o, err = parseFlags(horovodrun, []string{"-H", "a:2,b", "sh"}, &bytes.Buffer{})
	must.NoError(t, err)
	must.Eq(t, 3, o.NP, must.Sprint("all slots"))
	must.Eq(t, 3, o.MinNP)

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a launcher":           {[]string{"torchrun", "x.py"}, `command "torchrun": run takes its place`},
		"a script alone":       {[]string{"-np", "2", "x.py", "-v"}, "python x.py -v"},
		"no command":           {[]string{"-np", "2"}, "no command given"},
		"unknown command":      {[]string{"-np", "1", "no-such-program"}, `"no-such-program"`},
		"no processes":         {[]string{"-np", "0", "sh"}, "-np 0"},
		"min above np":         {[]string{"-np", "1", "--min-np", "2", "sh"}, "--min-np 2"},
		"max below np":         {[]string{"-np", "3", "--max-np", "2", "sh"}, "--max-np 2"},
		"np above the slots":   {[]string{"-np", "3", "-H", "a:1", "sh"}, "-np 3"},
		"hosts and a script":   {[]string{"-H", "a:1", "--host-discovery-script", "true", "sh"}, "-H"},
		"no slots":             {[]string{"--slots-per-host", "0", "sh"}, "--slots-per-host 0"},
		"slots not a number":   {[]string{"-H", "a:x", "sh"}, `"a:x"`},
		"a host twice":         {[]string{"-H", "a:1,b:1,a:1", "sh"}, `host "a" is named twice`},
		"hosts without slots":  {[]string{"-H", "a:0", "sh"}, "no slots"},
		"no time to wait":      {[]string{"--elastic-timeout", "0", "sh"}, "--elastic-timeout 0"},
		"unknown interface":    {[]string{"--network-interface", "nope0", "sh"}, "this machine has lo"},
		"unknown reaction":     {[]string{"--on-ring-lost", "weep", "sh"}, `--on-ring-lost weep: must be "fail" or "restart"`},
		"seconds no number":    {[]string{"--gloo-timeout-seconds", "1m", "sh"}, "--gloo-timeout-seconds 1m: must be a number of seconds"},
		"an earlier name":      {[]string{"--settle", "1s", "sh"}, "it is named -debounce"},
		"a knob of Horovod":    {[]string{"--log-level", "DEBUG", "sh"}, "HOROVOD_LOG_LEVEL"},
		"slots in words":       {[]string{"--slots-per-host", "gpu", "sh"}, "--slots-per-host gpu: must be a whole number"},
		"interval no duration": {[]string{"--discovery-interval", "5", "sh"}, `--discovery-interval 5: not a duration; write it like "90s"`},
		"script without path":  {[]string{"--host-discovery-script", "flags_test.go", "sh"}, "write ./flags_test.go"},
		"script not to be run": {[]string{"--host-discovery-script", "/no/such", "sh"}, "/no/such"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseFlags(horovodrun, c.args, &bytes.Buffer{})
			must.ErrorContains(t, err, c.want)
		})
	}
}

// Each alias sets the flag that it names, or nothing.
func TestAliases(t *testing.T) {
	for launcher, framework := range map[string]Framework{"horovodrun": horovodrun, "torchrun": torchrun} {
		parse := func(t *testing.T, args ...string) (*flags, *flag.FlagSet) {
			o := &flags{dialect: framework.Dialect}
			f := o.set(framework.Program, &bytes.Buffer{})
			must.NoError(t, f.Parse(append(args, "sh")))
			must.Eq(t, []string{"sh"}, f.Args())
			return o, f
		}
		none, _ := parse(t)
		for _, a := range aliases[launcher] {
			for name := range strings.FieldsSeq(a.names) {
				t.Run(launcher+"/"+name, func(t *testing.T) {
					switch a.flag {
					case ignored:
						o, _ := parse(t, "-"+name, cmp.Or(ignoredValues[strings.ReplaceAll(name, "_", "-")].good, "7"))
						must.Eq(t, outcome(none), outcome(o))
					case ignoredSwitch:
						o, _ := parse(t, "-"+name)
						must.Eq(t, outcome(none), outcome(o))
					default:
						want, _ := parse(t, "-"+a.flag, "7")
						got, f := parse(t, "-"+name, "7")
						must.Eq(t, outcome(want), outcome(got))
						must.NotEq(t, outcome(none), outcome(got))
						must.Eq(t, f.Lookup(a.flag).DefValue, f.Lookup(name).DefValue)
					}
				})
			}
		}
	}
	_, err := parseFlags(torchrun, []string{"--max_restarts", "many", "sh"}, &bytes.Buffer{})
	must.ErrorContains(t, err, "--max_restarts many", must.Sprint("the name that was written"))
}

// ignoredValues are values, valid and invalid ones, for flags that run ignores.
var ignoredValues = map[string]struct {
	launcher  Framework
	good, bad string
}{
	"start-timeout":      {horovodrun, "30", "foo"},
	coolDownFlag:         {horovodrun, "1", "soon"},
	"node-rank":          {torchrun, "0", "first"},
	"master-port":        {torchrun, "29500", "http"},
	"monitor-interval":   {torchrun, "0.1", "5s"},
	"rdzv-conf":          {torchrun, "timeout=60,is_host=1", "timeout=60,is_host"},
	"start-method":       {torchrun, "forkserver", "thread"},
	"local-ranks-filter": {torchrun, "0,2", "0-2"},
	"redirects":          {torchrun, "3", "4"},
	"r":                  {torchrun, "0:1,1:3", "0:1,3"},
	"tee":                {torchrun, "0:2", "all"},
	"t":                  {torchrun, "0", "0:4"},
}

// A value that the launcher refuses is an error, although run ignores the flag.
func TestIgnoredFlagsCheckTheirValues(t *testing.T) {
	for name := range checks {
		v := ignoredValues[name]
		for _, flag := range []string{name, strings.ReplaceAll(name, "-", "_")} {
			if flag != name && v.launcher.Dialect.launcher == "horovodrun" {
				continue
			}
			_, err := parseFlags(v.launcher, []string{"--" + flag, v.bad, "sh"}, &bytes.Buffer{})
			must.ErrorContains(t, err, fmt.Sprintf("invalid value %q for flag -%s: must be ", v.bad, flag))
		}
	}
	_, err := parseFlags(horovodrun, []string{"--" + coolDownFlag, "1", "sh"}, &bytes.Buffer{})
	must.ErrorContains(t, err, `invalid second value "sh" for flag -`+coolDownFlag+": must be a whole number")
}

// outcome returns the values that aliases set.
func outcome(o *flags) []any {
	return []any{o.NP, o.MinNP, o.MaxNP, o.SlotRestarts, o.slots, o.hosts, o.iface, o.output}
}

func TestParseHosts(t *testing.T) {
	hosts, err := parseHosts("a:2\n\n b \nc:0\n", 4, true)
	must.NoError(t, err)
	must.Eq(t, []listedHost{{"a", 2}, {"b", 4}}, hosts)
	_, err = parseHosts("ok:1\na b:1", 1, false)
	must.ErrorContains(t, err, "line 2")
	hosts, err = parseHosts("a:2\nb:1\na:3\nc:1\nc:0", 1, false)
	must.NoError(t, err)
	must.Eq(t, []listedHost{{"a", 3}, {"b", 1}}, hosts, must.Sprint("the last line of a host counts"))
}

func TestTorchrunFlags(t *testing.T) {
	parse := func(args ...string) *flags {
		t.Helper()
		o, err := parseFlags(torchrun, append(args, "--", "sh"), &bytes.Buffer{})
		must.NoError(t, err)
		return o
	}
	o := parse("--nnodes", "1:4", "--nproc-per-node=2", "--max_restarts", "7", "--rdzv-backend=c10d", "--rdzv_endpoint", "h:1", "--standalone",
		"--timeout", "90s", "--backend", "gloo", "--elastic-timeout", "5m")
	must.Eq(t, []int{2, 2, 8, 7}, []int{o.NP, o.MinNP, o.MaxNP, o.SlotRestarts})
	must.Eq(t, "node0:2", o.hosts)
	must.Eq(t, settings.Env{"KOLO_TORCH_TIMEOUT": "90", "KOLO_TORCH_BACKEND": "gloo"}, o.env)
	must.Eq(t, settings.Duration(5*time.Minute), o.ElasticTimeout)

	o = parse("--nnodes=3", "--nproc_per_node=2", "--min-np=4")
	must.Eq(t, []int{4, 4, 6}, []int{o.NP, o.MinNP, o.MaxNP})
	must.Eq(t, "node0:2,node1:2,node2:2", o.hosts)
	o = parse("--standalone", "--nproc-per-node=2", "--no-python", "--log_dir", "logs")
	must.Eq(t, []int{2, 2, 0}, []int{o.NP, o.MinNP, o.MaxNP}, must.Sprint("torchrun starts two"))
	must.Eq(t, "logs", o.output)
	o = parse("-np", "2", "--max-np", "4")
	must.Eq(t, []int{2, 2, 4}, []int{o.NP, o.MinNP, o.MaxNP})
	must.Eq(t, settings.Restart{Checkpoint: settings.Checkpoint{Wait: settings.Duration(time.Minute)}}, o.restart)
	o = parse("--mode=restart", "--spares", "1", "--checkpoint-signal", "SIGUSR1", "--checkpoint-file", "stop", "--checkpoint-path", "/m", "--checkpoint-wait", "5s")
	must.Eq(t, settings.Restart{Mode: "restart", Spares: 1, Checkpoint: settings.Checkpoint{Signal: "SIGUSR1", File: "stop", Path: "/m",
		Wait: settings.Duration(5 * time.Second)}}, o.restart)

	o = parse("-np", "4", "--max-np", "8", "--replica", "4")
	must.Eq(t, []int{4, 4, 8, 4}, []int{o.NP, o.MinNP, o.MaxNP, o.Replica})

	o = parse("-H", "a:2,b:1,c:1", "--spare-hosts", "1")
	must.Eq(t, []int{3, 3, 1}, []int{o.NP, o.MinNP, o.restart.SpareHosts})

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"only spares":               {[]string{"-H", "a:1,b:1", "--spare-hosts", "2"}, "--spare-hosts 2: there are 2 hosts, of which at least one trains"},
		"too few for a spare":       {[]string{"-H", "a:1,b:1", "--spare-hosts", "1", "-np", "2"}, "-np 2: the hosts have 1 slots without --spare-hosts"},
		"half a replica":            {[]string{"-np", "6", "--replica", "4"}, "--min-np 6: is no multiple of replica = 4; set it to 4 or 8"},
		"nodes the wrong way round": {[]string{"--nnodes", "4:1"}, "1:4"},
		"processes by name":         {[]string{"--nproc-per-node", "gpu"}, "--nproc-per-node gpu: must be"},
		"a knob of NCCL":            {[]string{"--nccl-debug", "INFO"}, "NCCL_DEBUG"},
		"Horovod's timeout":         {[]string{"--gloo-timeout-seconds", "30"}, "not defined"},
		"a mode":                    {[]string{"--mode", "elastic"}, `--mode elastic: must be "in-process" or "restart"`},
		"two spares":                {[]string{"--spares", "2"}, "--spares 2: must be 0 or 1"},
		"a signal":                  {[]string{"--checkpoint-signal", "SIGSTOP"}, "--checkpoint-signal SIGSTOP: no process can react to it"},
		"a request without effect":  {[]string{"--mode", "in-process", "--checkpoint-file", "stop"}, "checkpoint: has no effect"},
		"half a second":             {[]string{"--timeout", "500ms"}, "--timeout 500ms: must be at least 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseFlags(torchrun, append(c.args, "sh"), &bytes.Buffer{})
			must.ErrorContains(t, err, c.want)
		})
	}

	var help bytes.Buffer
	_, err := parseFlags(torchrun, []string{"-help"}, &help)
	must.ErrorIs(t, err, flag.ErrHelp)
	must.StrContains(t, help.String(), "usage: nomad-driver-torch run")
	must.StrNotContains(t, help.String(), "orovod")
	must.StrNotContains(t, help.String(), "rdzv-", must.Sprint("what is ignored is not listed"))
}
