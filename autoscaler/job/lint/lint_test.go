// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery"
)

var update = flag.Bool("update", false, "write what is found to testdata/*.golden")

func check(t *testing.T, path string, vars ...string) ([]Finding, error) {
	t.Helper()
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	return Check(Options{Path: path, Text: text, Vars: vars, ReadFiles: true, MaxKillTimeout: MaxKillTimeout})
}

// Each job in testdata has a file next to it with all its findings.
func TestFindings(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			findings, err := check(t, path)
			must.NoError(t, err)
			var out strings.Builder
			for _, f := range findings {
				f.File = filepath.Base(f.File)
				fmt.Fprintln(&out, f)
			}
			golden := strings.TrimSuffix(path, ".nomad.hcl") + ".golden"
			if *update {
				must.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			must.NoError(t, err)
			must.Eq(t, string(want), out.String())
		})
	}
}

// digest is an image as a job should name it.
const digest = "example/torch@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// The jobs that come with Kolo are models, so they have no findings.
func TestOwnJobs(t *testing.T) {
	paths, err := filepath.Glob("../../../jobspecs/*.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths)
	examples, err := filepath.Glob("../../../docs/examples/*/job.nomad.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, examples)
	for _, path := range append(paths, examples...) {
		t.Run(path, func(t *testing.T) {
			var vars []string
			text, err := os.ReadFile(path)
			must.NoError(t, err)
			if strings.Contains(string(text), `variable "image"`) {
				vars = append(vars, "image="+digest)
			}
			findings, err := check(t, path, vars...)
			must.NoError(t, err)
			must.SliceEmpty(t, findings)
		})
	}
}

// model is a job in which nothing is found.
func model(t *testing.T) string {
	text, err := os.ReadFile("testdata/model.hcl")
	must.NoError(t, err)
	return strings.Replace(string(text), "kolo-torch:1", digest, 1)
}

// Each change of a model job leads to one finding, with its rule and class, in the changed
// line.
func TestOneMistake(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		rule     string
		severity Severity
		line     string // that the finding is at
	}{
		"another port":            {`port     = "kolo"`, `port     = "http"`, "service", Error, `port     = "http"`},
		"another service":         {`"--service=torch-docker"`, `"--service=torch"`, "service", Error, `name     = "torch-docker"`},
		"consul":                  {`provider = "nomad"`, `provider = "consul"`, "service", Error, `provider = "consul"`},
		"bridge":                  {`network_mode = "host"`, `network_mode = "bridge"`, "network-mode", Error, `network_mode = "bridge"`},
		"no network mode":         {`network_mode = "host"`, ``, "network-mode", Error, "config {"},
		"group in a bridge":       {`port "kolo" {}`, "mode = \"bridge\"\n port \"kolo\" {}", "network-mode", Error, `mode = "bridge"`},
		"mapped port":             {`port "kolo" {}`, "port \"kolo\" {\n to = 80\n}", "port", Error, "to = 80"},
		"tag":                     {digest, "example/torch:2", "image", Warning, "image        = var.image"},
		"no shm":                  {"shm_size     = 1073741824", "", "shm-size", Warning, "config {"},
		"small shm":               {"shm_size     = 1073741824", "shm_size = 1000000", "shm-size", Warning, "shm_size = 1000000"},
		"shm as podman takes it":  {"shm_size     = 1073741824", `shm_size = "1g"`, "shm-size", Error, `shm_size = "1g"`},
		"user by name":            {`user = "65534"`, `user = "nobody"`, "user", Warning, `user = "nobody"`},
		"no user":                 {`user = "65534"`, ``, "user", Warning, `task "train" {`},
		"other signal":            {`driver = "docker"`, "driver = \"docker\"\nkill_signal = \"SIGUSR1\"", "kill-signal", Error, `kill_signal = "SIGUSR1"`},
		"another kill_timeout":    {`--kill_timeout=30s`, `--kill_timeout=20s`, "kill-timeout", Error, `--kill_timeout=20s`},
		"unknown flag":            {`--min_np=1`, `--min=1`, "flags", Error, `--min=1`},
		"a flag of another place": {`--min_np=1`, `--work_dir=/src`, "flags", Error, `--work_dir=/src`},
		"wrong value":             {`--min_np=1`, `--min_np=one`, "config", Error, `--min_np=one`},
		"wrong value of a block":  {`--torch.backend=gloo`, `--torch.backend=a/b`, "config", Error, `--torch.backend=a/b`},
		"too many":                {`--min_np=1`, `--min_np=5`, "config", Error, `--min_np=5`},
		"more than can be":        {`max     = 4`, `max     = 5`, "counts", Warning, `--max_np=4`},
		"no identity":             {"identity {\n        file = true\n      }", "", "identity", Error, `task "train" {`},
		"identity for others":     {`aud  = ["kolo"]`, `aud  = ["vault.io"]`, "identity", Error, `identity {`},
		"eternal identity":        {`ttl  = "15m"`, ``, "identity", Warning, `identity {`},
		"no reschedule":           {`unlimited      = true`, `unlimited      = false`, "reschedule", Warning, `reschedule {`},
		"misspelt field":          {`hostname     =`, `hostnam     =`, "config", Warning, `hostnam     =`},
		"only spares":             {`--min_np=1`, `--min_np=1", "--spare_hosts=4`, "counts", Error, `--min_np=1`},
		"kolo block":              {`max     = 4`, "max = 4\npolicy {\nkolo {\nweight = -1\n}\n}", "kolo", Error, `weight = -1`},
		"element of a list":       {`max     = 4`, "max = 4\npolicy {\nkolo {\nsizes = [0]\n}\n}", "kolo", Error, `sizes = [0]`},
		"service job":             {`type = "batch"`, `type = "service"`, "type", Warning, `type = "service"`},
		"shutdown_delay":          {`shutdown_delay = "1ms"`, ``, "shutdown-delay", Warning, `group "workers" {`},
		"long shutdown_delay":     {`shutdown_delay = "1ms"`, `shutdown_delay = "10s"`, "shutdown-delay", Warning, `shutdown_delay = "10s"`},
		"memory":                  {`memory = 1024`, ``, "memory", Warning, `resources {`},
		"GPUs without any":        {`user = "65534"`, "user = \"65534\"\nenv {\nNVIDIA_VISIBLE_DEVICES = \"all\"\n}", "device", Error, `NVIDIA_VISIBLE_DEVICES = "all"`},
		"another flag's variable": {`--framework=torch`, `--framework=jax`, "flags", Error, `--framework=jax`},
	} {
		t.Run(name, func(t *testing.T) {
			before := model(t)
			text := strings.Replace(before, c.old, c.new, 1)
			must.NotEq(t, before, text)
			findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
			must.NoError(t, err)
			must.Len(t, 1, findings, must.Sprint(findings))
			f := findings[0]
			must.Eq(t, c.rule, f.Rule, must.Sprint(f))
			must.Eq(t, c.severity, f.Severity, must.Sprint(f))
			must.StrContains(t, strings.Split(text, "\n")[f.Line-1], c.line, must.Sprint(f))
		})
	}
}

// The spare hosts of a job with a kolo block are in a group without a kolo block.
func TestSpareHosts(t *testing.T) {
	text := strings.Replace(model(t), `max     = 4`, "max = 4\npolicy {\nkolo {}\n}", 1)
	text = strings.Replace(text, `--min_np=1`, `--min_np=1", "--spare_hosts=1`, 1)
	findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
	must.NoError(t, err)
	must.Len(t, 1, findings, must.Sprint(findings))
	must.StrContains(t, findings[0].Message, "spare_hosts = 1: a kolo block counts workers that train")

	start := strings.Index(text, `group "workers" {`)
	end := strings.LastIndex(text, "}")
	group := strings.Replace(text[start:end], `group "workers"`, `group "spare"`, 1)
	group = strings.Replace(group, "count = var.count", "count = 1", 1)
	group = strings.Replace(group, "policy {\nkolo {}\n}", "", 1)
	for spares, want := range map[string][]string{
		"1": nil,
		"2": {"spare_hosts = 2: another group of its service has 1, and the agent that leads decides; set the same value in all groups"},
	} {
		other := strings.Replace(group, "--spare_hosts=1", "--spare_hosts="+spares, 1)
		findings, err = Check(Options{Path: "job.hcl", Text: []byte(text[:end] + other + text[end:]), MaxKillTimeout: MaxKillTimeout})
		must.NoError(t, err)
		var messages []string
		for _, f := range findings {
			if f.Rule != "counts" || f.Severity == Error {
				messages = append(messages, f.Message)
			}
		}
		must.Eq(t, want, messages)
	}
}

// Spares of the kolo block are not in the ring.
func TestSpareOfTheKoloBlock(t *testing.T) {
	text := strings.Replace(model(t), `max     = 4`, "max = 4\npolicy {\nkolo {\nspare = 1\n}\n}", 1)
	for np, want := range map[string]int{"3": 0, "4": 1} {
		findings, err := Check(Options{Path: "job.hcl", Text: []byte(strings.Replace(text, `--min_np=1`, `--min_np=`+np, 1)), MaxKillTimeout: MaxKillTimeout})
		must.NoError(t, err)
		must.Len(t, want, findings, must.Sprint(findings))
		if want > 0 {
			must.StrContains(t, findings[0].Message, "can have at most 3, by count or scaling.max and the slots of an allocation, without the spares of the kolo block")
		}
	}
}

// If there are several device blocks, a finding is at the block with the problem.
func TestDevice(t *testing.T) {
	text := strings.Replace(model(t), `max     = 4`, "max = 4\npolicy {\nkolo {}\n}", 1)
	text = strings.Replace(text, `memory = 1024`, "memory = 1024\ndevice \"a/fpga\" {}\ndevice \"b: \\\"c\\\"\" {}", 1)
	findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
	must.NoError(t, err)
	must.Len(t, 1, findings, must.Sprint(findings))
	must.StrContains(t, strings.Split(text, "\n")[findings[0].Line-1], `device "b: \"c\"" {}`, must.Sprint(findings[0]))
}

// Settings that only a client can check have no finding.
func TestUnknownValues(t *testing.T) {
	text := model(t)
	for old, with := range map[string]string{
		`--min_np=1`:             `--min_np=${NOMAD_META_least}`,
		`--kill_timeout=30s`:     `--kill_timeout=${NOMAD_META_kill}`,
		`--service=torch-docker`: `--service=${NOMAD_META_service}`,
		`user = "65534"`:         `user = "${meta.user}"`,
		`"host"`:                 `"${meta.mode}"`,
	} {
		text = strings.Replace(text, old, with, 1)
	}
	findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
	must.NoError(t, err)
	must.SliceEmpty(t, findings)
}

func TestMaxKillTimeout(t *testing.T) {
	text := strings.ReplaceAll(model(t), `30s`, `5m`)
	for limit, n := range map[time.Duration]int{MaxKillTimeout: 1, 5 * time.Minute: 0} {
		findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: limit})
		must.NoError(t, err)
		must.Len(t, n, findings)
	}
}

// A job that can't be read is an error that names the place.
func TestUnreadable(t *testing.T) {
	deep := strings.Repeat("[", 1000)
	for name, c := range map[string]struct {
		text, want string
		o          Options
	}{
		"no HCL":           {text: "job \"x\" {", want: "job.hcl:1"},
		"no job":           {text: "locals {}", want: "job.hcl: has no job block"},
		"JSON":             {text: `{"Job": {}}`, want: "is JSON; only HCL is read"},
		"unknown argument": {text: "job \"x\" {\n colour = 1\n}", want: "job.hcl:2"},
		"unset variable":   {text: "variable \"image\" {}\njob \"x\" {\n}", want: "job.hcl: Unset variable"},
		"deep":             {text: "job \"x\" {\n meta = " + deep, want: "nested"},
		"long":             {text: strings.Repeat("# long\n", 1<<18), want: "at most"},
		"deep variable":    {text: "job \"x\" {}", o: Options{Vars: []string{"a=" + deep}}, want: "the variable a"},
		"no assignment":    {text: "job \"x\" {}", o: Options{Vars: []string{"a"}}, want: `-var "a": write name=value`},
		"no such file":     {text: "job \"x\" {}", o: Options{VarFiles: []string{"nosuch.hcl"}}, want: "nosuch.hcl"},
		"two jobs":         {text: "job \"x\" {}\njob \"y\" {}", want: "job"},
		"reads a file":     {text: "job \"x\" {\n meta { a = file(\"/etc/passwd\") }\n}", want: "file"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Path, c.o.Text = "job.hcl", []byte(c.text)
			findings, err := Check(c.o)
			must.ErrorContains(t, err, c.want)
			must.SliceEmpty(t, findings)
			must.Less(t, 3000, len(err.Error()))
		})
	}
}

// Texts of a job stay on one line of the terminal, and the number of findings is bounded.
func TestHostile(t *testing.T) {
	text := model(t)
	text = strings.Replace(text, `"65534"`, `"\u001b[2Jroot"`, 1)
	text = strings.Replace(text, `name     = "torch-docker"`, `name     = "`+strings.Repeat("x", 5000)+`"`, 1)
	for i := range 300 {
		text = strings.Replace(text, "shm_size     = 1073741824", fmt.Sprintf("shm_size     = 1073741824\nfield%d = 1", i), 1)
	}
	findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
	must.NoError(t, err)
	must.Len(t, maxFindings+1, findings)
	must.StrContains(t, findings[maxFindings].Message, "more findings")
	for _, f := range findings {
		must.Less(t, 600, len(f.Message))
		must.False(t, strings.ContainsAny(f.Message, "\x1b\n"))
	}
}

// Values that this package duplicates are equal to those that the agents accept.
func TestAudience(t *testing.T) { must.Eq(t, discovery.Audience, audience) }

func FuzzCheck(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.nomad.hcl")
	must.NoError(f, err)
	for _, path := range append(paths, "../../../jobspecs/torch.nomad.hcl") {
		text, err := os.ReadFile(path)
		must.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Functions, templates and loops may take any time and memory; the command
		// bounds them.
		tokens, _ := hclsyntax.LexConfig([]byte(text), "job.hcl", hcl.InitialPos)
		if slices.ContainsFunc(tokens, func(t hclsyntax.Token) bool { return t.Type == hclsyntax.TokenOParen || string(t.Bytes) == "for" }) {
			return
		}
		findings, err := Check(Options{Path: "job.hcl", Text: []byte(text), MaxKillTimeout: MaxKillTimeout})
		if err != nil {
			must.SliceEmpty(t, findings)
			must.StrNotContains(t, err.Error(), "cannot be evaluated", must.Sprint("a panic"))
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, found := range findings {
			must.Between(t, 1, found.Line, lines)
			must.NotEq(t, "", found.Rule)
		}
	})
}
