// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// simulate runs kolo simulate and returns its exit code and what it printed.
func simulate(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	ui := cli.NewMockUi()
	c := &simulateCommand{meta: meta{UI: ui}}
	code = c.Run(args)
	return code, ui.OutputWriter.String(), ui.ErrorWriter.String()
}

func TestSimulate_WorksWithoutAFile(t *testing.T) {
	code, out, errOut := simulate(t, "-synthetic-jobs", "20", "-policy", "all")
	must.Eq(t, 0, code, must.Sprint(errOut))
	must.StrContains(t, out, "synthetic-20 on 16 nodes with 64 GPUs")
	for _, name := range builtin.Policies.Names() {
		must.StrContains(t, out, "\n"+name+" ")
	}
}

// TestSimulate_SameBytes writes all reports twice, with different
// parallelism.
func TestSimulate_SameBytes(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		code, _, errOut := simulate(t, "-synthetic-jobs", "30", "-synthetic-deadlines", "0.5", "-seeds", "3",
			"-loads", "1,0.5", "-resize-costs", "1,30", "-policy", "elastic-fifo@blind,afs-l", "-mtbf", "6h", "-spot", "10h",
			"-cluster", "16x4/4", "-placement", "nomad,migrate", "-scatter", "0.3", "-cross-rack", "0.2",
			"-parallel", []string{"1", "5"}[i],
			"-json", filepath.Join(dir, "r.json"), "-csv", filepath.Join(dir, "r.csv"), "-jobs", filepath.Join(dir, "j.csv"),
			"-html", filepath.Join(dir, "r.html"), "-markdown", filepath.Join(dir, "r.md"))
		must.Eq(t, 0, code, must.Sprint(errOut))
	}
	for _, name := range []string{"r.json", "r.csv", "j.csv", "r.html", "r.md"} {
		a, err := os.ReadFile(filepath.Join(dirs[0], name))
		must.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(dirs[1], name))
		must.NoError(t, err)
		must.Positive(t, len(a))
		must.True(t, string(a) == string(b), must.Sprint(name, " differs"))
	}
}

func TestSimulate_EventLog(t *testing.T) {
	code, out, errOut := simulate(t, "-trace", "testdata/day.jsonl", "-resize-costs", "measured", "-policy", "fifo,elastic-fifo", "-jobs", "-")
	must.Eq(t, 0, code, must.Sprint(errOut))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	must.Len(t, 1+2*2, lines)
	must.StrContains(t, lines[1], "fifo,vision,,red,0,0,")
	must.StrNotContains(t, out, "avg JCT") // standard output was asked for something else

	code, out, _ = simulate(t, "-trace", "testdata/day.jsonl")
	must.Eq(t, 0, code)
	must.StrContains(t, out, "day on 2 nodes with 8 GPUs")
}

func TestSimulate_Skips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	must.NoError(t, os.WriteFile(path, []byte("job_id,submission_time,duration,num_gpu\nx,100,60,4\ny,soon,10,1\n"), 0o600))
	code, _, errOut := simulate(t, "-trace", path)
	must.Eq(t, 1, code)
	must.StrContains(t, errOut, path+`:3:3: submission_time: want seconds or a date`)
	must.StrContains(t, errOut, "-errors skip")
	code, out, errOut := simulate(t, "-trace", path, "-errors", "skip")
	must.Eq(t, 0, code)
	must.StrContains(t, errOut, "skipped: "+path+":3:3")
	must.StrContains(t, out, "afs-l")
}

func TestSimulate_Mistakes(t *testing.T) {
	// The others are wrong command lines.
	fails := []string{"no such file", "cluster too small", "unknown format", "unwritable", "ticks and faults", "placements file", "placements of others", "phases file", "no batch sizes", "phases of others"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":          {[]string{"-polices", "x"}, `unknown flag -polices; did you mean "-policy"?`},
		"argument":              {[]string{"trace.csv"}, "a trace is named with -trace"},
		"unknown policy":        {[]string{"-policy", "best"}, `no policy is called "best"`},
		"no policy":             {[]string{"-policy", ","}, "at least one policy"},
		"bad option":            {[]string{"-policy", "tiresias(threshold=[1])"}, "threshold"},
		"unknown class":         {[]string{"-policy", "fifo@clairvoyant"}, "unknown information class"},
		"unknown default class": {[]string{"-information", "all"}, "unknown information class"},
		"no such file":          {[]string{"-trace", "/nowhere.csv"}, "no such file"},
		"loads":                 {[]string{"-loads", "1,heavy"}, `-loads: want numbers, got "heavy"`},
		"load of nothing":       {[]string{"-loads", "0"}, "-loads: want numbers above 0"},
		"cost":                  {[]string{"-resize-costs", "-1"}, "-resize-costs: want seconds"},
		"cost by size":          {[]string{"-resize-costs", "1=2;3"}, `want SIZE=SECONDS, got "3"`},
		"nothing measured":      {[]string{"-resize-costs", "measured"}, "no measured gaps"},
		"seeds":                 {[]string{"-seeds", "0"}, "-seeds 0"},
		"cluster":               {[]string{"-cluster", "4 nodes"}, "-cluster: want NODESxGPUS"},
		"cluster too small":     {[]string{"-trace", "testdata/day.jsonl", "-cluster", "1x1"}, "can never run on this cluster"},
		"placement":             {[]string{"-placement", "anywhere"}, "-placement: unknown placement"},
		"placements file":       {[]string{"-trace", "testdata/day.jsonl", "-placements", "/nowhere.csv"}, "step times by placement: open /nowhere.csv"},
		"placements of others":  {[]string{"-placements", "testdata/placements.csv"}, "no application and batch size in it is one of"},
		"placements in ticks":   {[]string{"-trace", "testdata/day.jsonl", "-placements", "testdata/placements.csv", "-tick", "60s"}, "there is no placement in ticks"},
		"placements nowhere":    {[]string{"-trace", "testdata/day.jsonl", "-placements", "testdata/placements.csv", "-placement", "count"}, "-placement count ignores nodes"},
		"placed twice":          {[]string{"-placement", "pack,nomad,pack"}, "-placement: pack is listed twice"},
		"racks":                 {[]string{"-cluster", "16x4/0"}, "-cluster: want NODESxGPUS[/RACK]"},
		"too many nodes":        {[]string{"-cluster", "99999999999x9"}, `-cluster "99999999999x9": want at most 1000000 nodes`},
		"too many in sum":       {[]string{"-cluster", "4x4,1000000x1:b"}, `-cluster "1000000x1:b": want at most`},
		"cross-rack below 0":    {[]string{"-cross-rack", "-1"}, "-cross-rack: want a fraction of 0 or more, got -1"},
		"no number":             {[]string{"-scatter", "NaN"}, "-scatter: want a fraction of 0 or more, got NaN"},
		"noise below 0":         {[]string{"-noise", "-0.1"}, "-noise: want a fraction of 0 or more"},
		"any length":            {[]string{"-length-error", "1e3"}, "-length-error: want 10 or less, got 1000"},
		"any noise":             {[]string{"-noise-error", "11"}, "-noise-error: want a number from 0 to 10, got 11"},
		"noise of no one":       {[]string{"-noise-error", "1"}, "name their -phases"},
		"phases of no trace":    {[]string{"-phases", "p.csv"}, "a generated workload has no applications"},
		"phases in ticks":       {[]string{"-trace", "t.csv", "-phases", "p.csv", "-tick", "60s"}, "-phases: step times do not change in ticks"},
		"phases by placement":   {[]string{"-trace", "t.csv", "-phases", "p.csv", "-placements", "q.csv"}, "goodput by placement is not known"},
		"phases file":           {[]string{"-trace", "testdata/day.jsonl", "-phases", "/nowhere.csv"}, "phases: open /nowhere.csv"},
		"no batch sizes":        {[]string{"-trace", "testdata/day.jsonl", "-phases", "testdata/phases.csv", "-noise-error", "1"}, "batch: this column is missing"},
		"phases of others":      {[]string{"-trace", "testdata/day.jsonl", "-phases", "testdata/phases.csv"}, "no application in it is one of day"},
		"no racks to cross":     {[]string{"-cross-rack", "0.3"}, "-cross-rack 0.3: no node is in a rack"},
		"moves below 0":         {[]string{"-max-migrations", "-1", "-placement", "migrate"}, "-max-migrations: want a number"},
		"moves of no one":       {[]string{"-max-migrations", "2"}, "only -placement migrate moves workers"},
		"placed in ticks":       {[]string{"-tick", "60s", "-placement", "pack,aware"}, "-placement pack,aware: there is no placement in ticks"},
		"errors":                {[]string{"-trace", "x", "-errors", "ignore"}, "want strict or skip"},
		"workload":              {[]string{"-trace", "x", "-workload", "first"}, "-workload"},
		"unknown format":        {[]string{"-trace", "testdata/day.jsonl", "-format", "xml"}, "unknown trace format"},
		"unwritable":            {[]string{"-synthetic-jobs", "3", "-html", "/nowhere/r.html"}, "writing the report"},
		"ticks and faults":      {[]string{"-tick", "60s", "-information", "blind"}, "in ticks a policy knows the step times"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := simulate(t, c.args...)
			must.Eq(t, map[bool]int{true: 1, false: exitUsage}[slices.Contains(fails, name)], code)
			must.StrContains(t, errOut, c.want)
		})
	}
}

// TestSimulate_Placements runs a job on four GPUs of one node, and on one GPU each of four
// nodes. According to the file, the latter takes twice as long.
func TestSimulate_Placements(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"jobs.csv":       "workload,name,submit_s,application,np,batch_size,max_replicas,steps\n1,one,0,bert,4,8,4,100\n",
		"step_times.csv": "application,batch_size,gpus,step_time_s\nbert,8,1,4\nbert,8,2,2\nbert,8,3,1.5\nbert,8,4,1\n",
	} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for placement, want := range map[string]string{"pack": "100", "spread": "200"} {
		code, out, errOut := simulate(t, "-trace", filepath.Join(dir, "jobs.csv"), "-placements", "testdata/placements.csv",
			"-placement", placement, "-policy", "fifo", "-resize-costs", "0", "-csv", "-")
		must.Eq(t, 0, code, must.Sprint(errOut))
		must.StrContains(t, out, "fifo,oracle,1,0,jobs-1,1,"+want+",", must.Sprint(placement))
	}
}

// TestSimulate_Phases runs a job with a fixed batch size, without and with a file of
// phases. The phases replace its step times, its bounds and its length.
func TestSimulate_Phases(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"jobs.csv":       "workload,name,submit_s,application,np,batch_size,max_replicas,steps\n1,one,0,bert,1,8,1,100\n",
		"step_times.csv": "application,batch_size,gpus,step_time_s\nbert,8,1,4\n",
	} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	args := []string{"-trace", filepath.Join(dir, "jobs.csv"), "-policy", "elastic-fifo", "-resize-costs", "0", "-csv", "-"}
	code, out, errOut := simulate(t, args...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	must.StrContains(t, out, ",jobs-1,1,400,")
	args = append(args, "-phases", "testdata/phases.csv")
	code, out, errOut = simulate(t, args...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	must.StrContains(t, out, ",jobs-1,1,130,", must.Sprint("100 × 0.8 s and 100 × 0.5 s, on two GPUs"))
	code, out, errOut = simulate(t, append(args, "-elastic", "0")...)
	must.Eq(t, 0, code, must.Sprint(errOut))
	must.StrContains(t, out, ",jobs-1,1,180,", must.Sprint("100 × 1 s and 100 × 0.8 s: it adapts at its one size"))
}

func TestSimulate_HelpNamesEveryFlag(t *testing.T) {
	ui := cli.NewMockUi()
	c := &simulateCommand{meta: meta{UI: ui}}
	help := c.Help()
	for name := range c.AutocompleteFlags() {
		must.StrContains(t, help, "\n  "+name)
	}
}

func TestSplitOutside(t *testing.T) {
	for in, want := range map[string][]string{
		"a,b":                             {"a", "b"},
		" a , b(x=1, y=[2,3])@blind ,c ":  {"a", "b(x=1, y=[2,3])@blind", "c"},
		`t(order="a,b)"),u`:               {`t(order="a,b)")`, "u"},
		"":                                nil,
		"a,,b":                            {"a", "b"},
		"w(tenants={x=1,y=2}, z=3),plain": {"w(tenants={x=1,y=2}, z=3)", "plain"},
	} {
		got := splitOutside(in)
		if len(want) == 0 {
			must.Len(t, 0, got)
			continue
		}
		must.Eq(t, want, got)
	}
}

func TestParseCluster(t *testing.T) {
	nodes, speed, err := parseCluster("2x8:a100@2.5,3x4:t4,1x4:t4")
	must.NoError(t, err)
	must.Len(t, 6, nodes)
	must.Eq(t, map[string]float64{"a100": 2.5}, speed)
	for _, n := range nodes {
		must.Eq(t, "", n.Rack)
	}
	seen := map[string]bool{}
	for _, n := range nodes {
		must.False(t, seen[n.ID], must.Sprint(n.ID))
		seen[n.ID] = true
	}
}

func TestParseCluster_Racks(t *testing.T) {
	nodes, _, err := parseCluster("5x4/2:t4,1x8,2x8/4")
	must.NoError(t, err)
	var racks []string
	for _, n := range nodes {
		racks = append(racks, n.Rack)
	}
	must.Eq(t, []string{"rack-0", "rack-0", "rack-1", "rack-1", "rack-2", "", "rack-3", "rack-3"}, racks)
}

func TestPolicyCommands(t *testing.T) {
	ui := cli.NewMockUi()
	must.Eq(t, 0, (&policyListCommand{meta{UI: ui}}).Run(nil))
	must.StrContains(t, ui.OutputWriter.String(), "* "+builtin.Default)

	for _, name := range builtin.Policies.Names() {
		ui = cli.NewMockUi()
		must.Eq(t, 0, (&policyExplainCommand{meta{UI: ui}}).Run([]string{name}))
		info, _ := builtin.Policies.Describe(name)
		for _, o := range info.Options {
			must.StrContains(t, ui.OutputWriter.String(), "  "+o.Name+" (")
		}
	}

	path := filepath.Join(t.TempDir(), "now.json")
	must.NoError(t, os.WriteFile(path, []byte(`{"Nodes":[{"ID":"n","GPUs":4}],"Jobs":[
		{"ID":"first","Min":1,"Max":8,"Preferred":2,"Preemptible":true,"Curve":[{"size":1,"step_time":2}]},
		{"ID":"second","Min":3,"Max":8,"Preferred":3,"Preemptible":true}]}`), 0o600))
	ui = cli.NewMockUi()
	must.Eq(t, 0, (&policyExplainCommand{meta{UI: ui}}).Run([]string{"-snapshot", path, "elastic-fifo"}))
	must.RegexMatch(t, regexp.MustCompile(`first +0 +1  `), ui.OutputWriter.String())
	must.RegexMatch(t, regexp.MustCompile(`second +0 +3  `), ui.OutputWriter.String())

	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"no policy":   {nil, exitUsage},
		"unknown":     {[]string{"best"}, 1},
		"no snapshot": {[]string{"-snapshot", "/nowhere", "fifo"}, 1},
		"two":         {[]string{"fifo", "kolo"}, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.code, (&policyExplainCommand{meta{UI: cli.NewMockUi()}}).Run(tc.args))
		})
	}
}

func TestWrap(t *testing.T) {
	must.Eq(t, "one two\n  three", wrap("one  two three", 8, "  "))
	must.Eq(t, "", wrap("", 8, "  "))
}
