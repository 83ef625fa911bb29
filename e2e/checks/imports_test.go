// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
)

// listed is a package of the module, as go list prints it. Deps are all that it
// imports, directly or not.
type listed struct {
	ImportPath    string
	Imports, Deps []string
}

// list returns the packages of the module by their names within it.
var list = sync.OnceValues(func() (map[string]listed, error) {
	if err := walk(); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-tags", "e2e,gpu", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[strings.TrimPrefix(pkg.ImportPath, self)] = pkg
	}
})

// walk reads the directories of the module itself, not through go list: go test
// repeats the result of an earlier run unless what the test has read changes.
func walk() error {
	return filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || strings.HasPrefix(name, ".") && name != "..") {
			return fs.SkipDir
		}
		return nil
	})
}

func packages(t *testing.T) map[string]listed {
	t.Helper()
	all, err := list()
	must.NoError(t, err)
	return all
}

// own returns the names of the module's packages among paths.
func own(paths []string) []string {
	var names []string
	for _, path := range paths {
		if name, ok := strings.CutPrefix(path, self); ok {
			names = append(names, name)
		}
	}
	return names
}

// rule is what a package may import, directly or not, besides the standard
// library and the modules of others.
type rule struct {
	uses  []string // packages of its program
	nomad bool     // packages of Nomad
	pure  bool     // of its program only what is pure, too, and no network
}

// Host, leader and what they build on know neither Nomad nor a training
// framework; horovod and torch are two. Only the program lists them, and gives agent
// and launcher theirs.
func driverRules() map[string]rule {
	base := []string{"attest", "cgroup", "elastic", "settings", "ownthread", "hostnet", "localpeer", "remotecall", "agent/config", "agent/events", "plaintext", "agent/process", "agent/wire"}
	finding := []string{"discovery", "discovery/discoverypb", "discovery/election", "discovery/internal/latest", "discovery/possession",
		"discovery/registry", "nomadapi"}
	framework := []string{"agent/framework", "agent/host", "agent/leader"}
	return map[string]rule{
		"attest":     {pure: true},
		"elastic":    {pure: true},
		"settings":   {},
		"ownthread":  {},
		"hostnet":    {uses: []string{"ownthread"}},
		"localpeer":  {},
		"remotecall": {},
		"discovery":  {uses: finding, nomad: true},

		"discovery/election":   {pure: true},
		"discovery/possession": {pure: true},
		"discovery/registry":   {uses: []string{"discovery/election", "discovery/internal/latest", "nomadapi"}, nomad: true},
		"nomadapi":             {nomad: true},

		"plaintext":   {},
		"commandline": {pure: true},
		"cgroup":      {},
		"procid":      {},
		"privatedirs": {},
		"account":     {uses: []string{"confine", "ownthread"}},
		"gate":        {},
		"eventtail":   {uses: []string{"plaintext"}},
		"gpu":         {},
		"gpu/devnode": {nomad: true},
		"python":      {uses: []string{"account", "confine", "ownthread", "plaintext"}},
		"isolation":   {uses: []string{"account", "confine", "ownthread", "privatedirs"}, nomad: true},
		"taskconfig":  {uses: []string{"agent/config", "commandline", "elastic", "gpu", "settings"}},
		"workerflags": {uses: []string{"agent/config", "commandline", "elastic", "gpu", "settings", "taskconfig"}},
		"plugin": {uses: []string{"account", "agent/config", "buildinfo", "cgroup", "commandline", "confine", "elastic", "eventtail", "gpu", "gpu/devnode", "hostnet", "isolation", "ownthread", "plaintext",
			"privatedirs", "procid", "settings", "taskconfig"}, nomad: true},

		"agent/config":     {uses: []string{"settings"}},
		"agent/events":     {},
		"agent/process":    {uses: []string{"hostnet", "ownthread", "plaintext"}},
		"agent/wire":       {uses: []string{"attest", "elastic"}},
		"agent/host":       {uses: base},
		"agent/leader":     {uses: []string{"attest", "elastic", "settings", "agent/config", "plaintext", "agent/wire"}},
		"agent/framework":  {uses: slices.Concat(base, framework)},
		"agent/port":       {},
		"agent/statusapi":  {uses: []string{"attest", "elastic", "agent/port", "agent/wire"}},
		"agent/session":    {uses: slices.Concat(finding, []string{"attest", "elastic", "agent/port", "agent/wire"}), nomad: true},
		"agent/completion": {uses: slices.Concat(finding, []string{"settings", "agent/config"}), nomad: true},

		"horovod/options":    {uses: []string{"settings"}},
		"horovod/probe":      {uses: []string{"account", "confine", "ownthread", "plaintext", "python"}},
		"horovod/taskdriver": {uses: []string{"account", "confine", "ownthread", "horovod/options", "horovod/probe", "plaintext", "python", "settings"}},
		"horovod/rendezvous": {uses: []string{"attest", "elastic", "gate", "agent/wire"}},
		"horovod":            {uses: slices.Concat(base, framework, []string{"gate", "horovod/rendezvous"})},

		"torch/store":      {uses: []string{"attest", "elastic", "agent/wire"}},
		"torch/tcpstore":   {uses: []string{"attest", "elastic", "agent/wire", "gate", "torch/store"}},
		"torch/worker":     {uses: []string{"attest", "elastic", "agent/wire", "gate"}},
		"torch/options":    {uses: []string{"settings"}},
		"torch/release":    {uses: []string{"plaintext"}},
		"torch/probe":      {uses: []string{"account", "confine", "ownthread", "plaintext", "python"}},
		"torch/taskdriver": {uses: []string{"account", "confine", "ownthread", "plaintext", "python", "settings", "torch/options", "torch/probe", "torch/release"}},
		"torch":            {uses: slices.Concat(base, framework, []string{"gate", "torch/release", "torch/store", "torch/tcpstore", "torch/worker"})},

		"launcher": {uses: slices.Concat(base, framework, []string{"agent/port", "agent/statusapi", "commandline", "horovod/options", "torch/options"})},
		"entrypoint": {
			uses: slices.Concat(base, framework, finding, []string{"agent", "agent/port", "agent/statusapi", "agent/session", "agent/completion",
				"commandline", "gpu", "taskconfig", "workerflags"}),
			nomad: true,
		},
		"agent": {
			uses:  slices.Concat(base, framework, finding, []string{"agent/port", "agent/statusapi", "agent/session", "agent/completion"}),
			nomad: true,
		},
	}
}

// Only plugin and the command know Nomad.
func deviceRules() map[string]rule {
	return map[string]rule{
		"topology":  {pure: true},
		"nvml":      {uses: []string{"topology"}},
		"inventory": {uses: []string{"topology", "nvml"}},
		"hostdev":   {uses: []string{"topology", "nvml", "inventory"}},
		"monitor":   {uses: []string{"topology", "nvml", "inventory"}},
		"metrics":   {uses: []string{"topology", "nvml", "inventory", "monitor"}},
		"inspect":   {uses: []string{"topology", "nvml", "inventory", "hostdev"}},
		"plugin":    {uses: []string{"topology", "nvml", "inventory", "hostdev", "monitor", "metrics"}, nomad: true},
		"cmd/nomad-device-nvtopo": {
			uses:  []string{"topology", "nvml", "inventory", "hostdev", "monitor", "metrics", "inspect", "plugin"},
			nomad: true,
		},
		"nvml/nvmltest":                {},
		"nvml/nvmltest/cmd/nvidia-smi": {uses: []string{"nvml/nvmltest"}},
	}
}

// Decisions are made without Nomad, so that the simulator makes the same.
func autoscalerRules() map[string]rule {
	contract := []string{"sizes", "policy/speedup", "policy"}
	decisions := slices.Concat(contract, []string{"nesting", "placement", "planner", "policy/registry", "policy/builtin", "history", "topology", "migrate"})
	edge := slices.Concat(decisions, []string{"audit", "config", "jobspec", "printable", "suggest"})
	return map[string]rule{
		"sizes":           {pure: true},
		"nesting":         {pure: true},
		"placement":       {pure: true},
		"topology":        {pure: true},
		"migrate":         {uses: []string{"sizes", "placement"}, pure: true},
		"policy/speedup":  {pure: true},
		"policy":          {uses: contract, pure: true},
		"policy/registry": {uses: slices.Concat(contract, []string{"nesting"}), pure: true},
		"policy/builtin":  {uses: slices.Concat(contract, []string{"nesting", "policy/registry"}), pure: true},
		"planner":         {uses: []string{"sizes", "placement", "migrate"}, pure: true},
		"history":         {uses: []string{"sizes", "placement", "migrate", "planner", "policy/speedup"}, pure: true},
		"policy/plugin":   {uses: slices.Concat(contract, []string{"nodump", "policy/plugin/policypb"})},
		"sim":             {uses: slices.Concat(contract, []string{"placement", "topology", "migrate", "sim/trace"})},

		"api":        {uses: decisions},
		"printable":  {},
		"suggest":    {},
		"socket":     {},
		"audit":      {uses: []string{"printable"}},
		"leader":     {nomad: true},
		"jobspec":    {uses: []string{"sizes", "suggest"}, nomad: true},
		"config":     {uses: decisions},
		"lint":       {uses: []string{"jobspec", "nesting", "printable", "sizes", "suggest"}, nomad: true},
		"expand":     {uses: []string{"jobspec", "nesting", "sizes", "suggest", "topology"}, nomad: true},
		"store":      {uses: slices.Concat(decisions, []string{"audit", "printable"}), nomad: true},
		"cluster":    {uses: slices.Concat(edge, []string{"api"}), nomad: true},
		"tokens":     {uses: slices.Concat(edge, []string{"api", "cluster"}), nomad: true},
		"record":     {uses: slices.Concat(decisions, []string{"api", "sim/trace"})},
		"server":     {uses: slices.Concat(edge, []string{"api", "cluster", "leader", "socket"}), nomad: true},
		"controller": {uses: slices.Concat(edge, []string{"api", "cluster", "leader", "store"}), nomad: true},
	}
}

// Each package in the tables imports, directly or not, only those of its program
// that are listed.
func TestImports(t *testing.T) {
	all := packages(t)
	for program, rules := range map[string]map[string]rule{
		"driver":     driverRules(),
		"device":     deviceRules(),
		"autoscaler": autoscalerRules(),
	} {
		for name, rule := range rules {
			pkg, exists := all[program+"/"+name]
			if !exists {
				t.Errorf("%s/%s does not exist", program, name)
			}
			for _, path := range pkg.Deps {
				used, ours := strings.CutPrefix(path, self+program+"/")
				nomad := strings.HasPrefix(path, "github.com/hashicorp/nomad")
				switch {
				case ours && !slices.Contains(rule.uses, used),
					ours && rule.pure && !rules[used].pure,
					nomad && !rule.nomad,
					path == "net" && rule.pure:
					t.Errorf("%s/%s imports %s", program, name, path)
				}
			}
		}
	}
}

// shared is what all programs may import.
const shared = "driver/buildinfo"

// linted is what `kolo job lint` has of the driver: the checks of what a user sets
// about a task, which start nothing and ask no one.
var linted = []string{"driver/agent/config", "driver/commandline", "driver/elastic", "driver/gpu", "driver/horovod/options", "driver/settings",
	"driver/taskconfig", "driver/torch/options", "driver/workerflags"}

// The three programs never import each other, nor what tests them, but for a linter of
// jobs. What they share imports none of them.
func TestImports_Programs(t *testing.T) {
	for name, pkg := range packages(t) {
		program, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"driver", "device", "autoscaler"}, program) {
			continue
		}
		for _, used := range own(pkg.Deps) {
			lint := (name == "autoscaler/lint" || name == "autoscaler/cmd/kolo") && slices.Contains(linted, used)
			if !strings.HasPrefix(used, program+"/") && used != shared && !lint {
				t.Errorf("%s imports %s, which is not of its program", name, used)
			}
		}
	}
}

func TestImports_Shared(t *testing.T) {
	must.SliceEmpty(t, own(packages(t)[shared].Deps))
}

// What the driver plugin gives the agent is a contract, not the agent: the plugin
// imports none of what runs in an allocation.
func TestImports_Plugin(t *testing.T) {
	inAllocation := []string{"driver/agent", "driver/horovod", "driver/launcher"}
	for _, used := range own(packages(t)["driver/plugin"].Deps) {
		for _, part := range inAllocation {
			if strings.HasPrefix(used, part) && used != "driver/agent/config" {
				t.Errorf("driver/plugin imports %s", used)
			}
		}
	}
}

// Kolo-worker is small: of Nomad it links the API alone.
func TestImports_Worker(t *testing.T) {
	for _, path := range packages(t)["driver/cmd/kolo-worker"].Deps {
		if strings.HasPrefix(path, "github.com/hashicorp/nomad/") && !strings.HasPrefix(path, "github.com/hashicorp/nomad/api") {
			t.Errorf("kolo-worker imports %s", path)
		}
	}
}

// The command alone imports the control loop: others know its types from package
// api.
func TestImports_ControlLoop(t *testing.T) {
	for name, pkg := range packages(t) {
		if slices.Contains(own(pkg.Imports), "autoscaler/controller") && name != "autoscaler/cmd/kolo" {
			t.Errorf("%s imports autoscaler/controller", name)
		}
	}
}
