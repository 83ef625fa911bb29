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
// imports, directly or not; Doc is the first sentence of its comment.
type listed struct {
	ImportPath    string
	Doc           string
	Imports, Deps []string
}

// list returns the packages of the module by their names within it.
var list = sync.OnceValues(func() (map[string]listed, error) {
	if err := walk(); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-tags", "e2e,gpu", "-json=ImportPath,Doc,Imports,Deps", "./...")
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

// rule states what a package may import, directly or not, in addition to the standard
// library, other modules and the shared packages.
type rule struct {
	uses  []string // packages of its program
	nomad bool     // packages of Nomad
	pure  bool     // of its program only what is pure, too, and no network
}

// Host, leader and the packages below them know neither Nomad nor a training framework;
// horovod and torch are two frameworks. Only the program lists these, and passes agent and
// launcher their parts.
func driverRules() map[string]rule {
	base := []string{"sandbox/attest", "sandbox/cgroup", "elastic", "task/settings", "sandbox/ownthread", "discovery/hostnet", "sandbox/localpeer", "sandbox/remotecall", "agent/config", "agent/events", "agent/process/inspect", "task/plaintext", "agent/process", "agent/stall", "agent/wire"}
	finding := []string{"discovery", "discovery/discoverypb", "discovery/election", "discovery/internal/latest", "discovery/possession",
		"discovery/registry", "discovery/nomadapi"}
	framework := []string{"agent/framework", "agent/host", "agent/leader"}
	return map[string]rule{
		"sandbox/attest":     {pure: true},
		"elastic":            {pure: true},
		"task/settings":      {},
		"sandbox/ownthread":  {},
		"discovery/hostnet":  {uses: []string{"sandbox/ownthread"}},
		"sandbox/localpeer":  {},
		"sandbox/remotecall": {},
		"discovery":          {uses: finding, nomad: true},

		"discovery/election":   {pure: true},
		"discovery/possession": {pure: true},
		"discovery/registry":   {uses: []string{"discovery/election", "discovery/internal/latest", "discovery/nomadapi"}, nomad: true},
		"discovery/nomadapi":   {nomad: true},

		"task/plaintext":      {},
		"task/commandline":    {pure: true},
		"sandbox/cgroup":      {},
		"plugin/jobmap":       {},
		"plugin/procid":       {},
		"sandbox/privatedirs": {},
		"sandbox/account":     {uses: []string{"sandbox/confine", "sandbox/ownthread"}},
		"sandbox/gate":        {},
		"plugin/eventtail":    {uses: []string{"task/plaintext"}},
		"task/gpu":            {},
		"task/gpu/devnode":    {nomad: true},
		"framework/python":    {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "task/plaintext"}},
		"sandbox/isolation":   {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "sandbox/privatedirs"}, nomad: true},
		"task/taskconfig":     {uses: []string{"agent/config", "task/commandline", "elastic", "task/gpu", "task/settings"}},
		"task/workerflags":    {uses: []string{"agent/config", "task/commandline", "elastic", "task/gpu", "task/settings", "task/taskconfig"}},
		"plugin": {uses: []string{"sandbox/account", "agent/config", "sandbox/cgroup", "task/commandline", "sandbox/confine", "elastic", "plugin/eventtail", "plugin/jobmap", "task/gpu", "task/gpu/devnode", "discovery/hostnet", "sandbox/isolation", "sandbox/ownthread", "task/plaintext",
			"sandbox/privatedirs", "plugin/procid", "task/settings", "task/taskconfig"}, nomad: true},

		"agent/config":          {uses: []string{"task/settings"}},
		"agent/events":          {},
		"agent/process/inspect": {},
		"agent/process":         {uses: []string{"discovery/hostnet", "sandbox/ownthread", "task/plaintext"}},
		"agent/stall":           {pure: true},
		"agent/wire":            {uses: []string{"sandbox/attest", "elastic"}},
		"agent/host":            {uses: base},
		"agent/leader":          {uses: []string{"sandbox/attest", "elastic", "task/settings", "agent/config", "task/plaintext", "agent/stall", "agent/wire"}},
		"agent/framework":       {uses: slices.Concat(base, framework)},
		"agent/port":            {},
		"agent/statusapi":       {uses: []string{"sandbox/attest", "elastic", "agent/port", "agent/wire"}},
		"agent/session":         {uses: slices.Concat(finding, []string{"sandbox/attest", "elastic", "agent/port", "agent/wire"}), nomad: true},
		"agent/completion":      {uses: slices.Concat(finding, []string{"task/settings", "agent/config"}), nomad: true},
		"agent/leader/scaling":  {uses: slices.Concat(finding, []string{"sandbox/attest", "elastic", "task/settings", "agent/config"}), nomad: true},

		"framework/horovod/options":    {uses: []string{"task/settings"}},
		"framework/horovod/probe":      {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "task/plaintext", "framework/python"}},
		"framework/horovod/taskdriver": {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "framework/horovod/options", "framework/horovod/probe", "task/plaintext", "framework/python", "task/settings"}},
		"framework/horovod/rendezvous": {uses: []string{"sandbox/attest", "elastic", "sandbox/gate", "agent/wire"}},
		"framework/horovod":            {uses: slices.Concat(base, framework, []string{"sandbox/gate", "framework/horovod/rendezvous"})},

		"framework/torch/store":      {uses: []string{"sandbox/attest", "elastic", "agent/wire"}},
		"framework/torch/tcpstore":   {uses: []string{"sandbox/attest", "elastic", "agent/wire", "sandbox/gate", "framework/torch/store"}},
		"framework/torch/worker":     {uses: []string{"sandbox/attest", "elastic", "agent/wire", "sandbox/gate"}},
		"framework/torch/options":    {uses: []string{"task/settings"}},
		"framework/torch/release":    {uses: []string{"task/plaintext"}},
		"framework/torch/probe":      {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "task/plaintext", "framework/python"}},
		"framework/torch/taskdriver": {uses: []string{"sandbox/account", "sandbox/confine", "sandbox/ownthread", "task/plaintext", "framework/python", "task/settings", "framework/torch/options", "framework/torch/probe", "framework/torch/release"}},
		"framework/torch":            {uses: slices.Concat(base, framework, []string{"sandbox/gate", "framework/torch/release", "framework/torch/store", "framework/torch/tcpstore", "framework/torch/worker"})},

		"launcher": {uses: slices.Concat(base, framework, []string{"agent/port", "agent/statusapi", "task/commandline", "framework/horovod/options", "framework/torch/options"})},
		"entrypoint": {
			uses: slices.Concat(base, framework, finding, []string{"agent", "agent/port", "agent/statusapi", "agent/session", "agent/completion", "agent/leader/scaling",
				"task/commandline", "task/gpu", "task/taskconfig", "task/workerflags"}),
			nomad: true,
		},
		"agent": {
			uses:  slices.Concat(base, framework, finding, []string{"agent/port", "agent/statusapi", "agent/session", "agent/completion", "agent/leader/scaling"}),
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

// Decisions are made without Nomad, so that the simulator makes the same ones.
func autoscalerRules() map[string]rule {
	contract := []string{"job/sizes", "job/waiting", "plan/queue", "policy/speedup", "policy/length", "policy"}
	decisions := slices.Concat(contract, []string{"job/identity", "text/nesting", "plan/placement", "plan/planner", "policy/registry", "policy/builtin", "memory/history", "memory/timeline", "memory/usage", "plan/topology", "plan/migrate", "plan/ledger"})
	edge := slices.Concat(decisions, []string{"api/audit", "config", "job/jobspec", "text/printable", "text/suggest"})
	return map[string]rule{
		"job/identity":    {pure: true},
		"job/sizes":       {pure: true},
		"job/waiting":     {pure: true},
		"text/nesting":    {pure: true},
		"plan/placement":  {pure: true},
		"plan/topology":   {pure: true},
		"plan/queue":      {pure: true},
		"plan/ledger":     {uses: []string{"plan/queue"}, pure: true},
		"plan/migrate":    {uses: []string{"job/sizes", "plan/placement"}, pure: true},
		"policy/speedup":  {pure: true},
		"policy/length":   {pure: true},
		"policy":          {uses: contract, pure: true},
		"policy/registry": {uses: slices.Concat(contract, []string{"text/nesting"}), pure: true},
		"policy/builtin":  {uses: slices.Concat(contract, []string{"text/nesting", "policy/registry"}), pure: true},
		"policy/queued":   {uses: contract, pure: true},
		"plan/planner":    {uses: []string{"job/identity", "job/sizes", "job/waiting", "plan/placement", "plan/migrate"}, pure: true},
		"plan/slowdown":   {uses: []string{"job/identity", "job/sizes", "job/waiting", "plan/placement", "plan/migrate", "plan/planner", "plan/topology"}, pure: true},
		"memory/history":  {uses: []string{"job/identity", "job/sizes", "job/waiting", "plan/placement", "plan/migrate", "plan/planner", "plan/queue", "plan/ledger", "policy/speedup", "policy/length"}, pure: true},
		"memory/timeline": {uses: []string{"job/identity"}, pure: true},
		"memory/usage":    {uses: []string{"job/identity"}, pure: true},
		"policy/plugin":   {uses: slices.Concat(contract, []string{"api/nodump", "policy/plugin/policypb"})},
		"sim":             {uses: slices.Concat(contract, []string{"plan/placement", "plan/topology", "plan/migrate", "plan/ledger", "sim/trace"})},

		"api":               {uses: decisions},
		"text/printable":    {},
		"text/suggest":      {},
		"api/page":          {},
		"api/recording":     {pure: true},
		"api/socket":        {},
		"api/audit":         {uses: []string{"text/printable"}},
		"cluster/leader":    {nomad: true},
		"job/jobspec":       {uses: []string{"job/sizes", "text/suggest"}, nomad: true},
		"config":            {uses: decisions},
		"job/lint":          {uses: []string{"job/jobspec", "text/nesting", "text/printable", "job/sizes", "text/suggest"}, nomad: true},
		"job/expand":        {uses: []string{"job/jobspec", "text/nesting", "job/sizes", "text/suggest", "plan/topology"}, nomad: true},
		"memory/store":      {uses: slices.Concat(decisions, []string{"api/audit", "text/printable"}), nomad: true},
		"cluster":           {uses: slices.Concat(edge, []string{"api"}), nomad: true},
		"notify":            {uses: slices.Concat(decisions, []string{"api", "config", "text/printable", "text/suggest"})},
		"api/tokens":        {uses: slices.Concat(edge, []string{"api", "cluster"}), nomad: true},
		"sim/forecast":      {uses: slices.Concat(contract, []string{"plan/placement", "plan/topology", "plan/migrate", "plan/ledger", "sim/trace", "sim"})},
		"sim/record":        {uses: slices.Concat(decisions, []string{"api", "sim/trace"})},
		"api/replay":        {uses: slices.Concat(decisions, []string{"api", "api/page", "api/recording"})},
		"api/server":        {uses: slices.Concat(edge, []string{"api", "cluster", "cluster/leader", "api/page", "api/socket"}), nomad: true},
		"controller/report": {uses: slices.Concat(edge, []string{"api", "cluster", "plan/slowdown"}), nomad: true},
		"controller":        {uses: slices.Concat(edge, []string{"policy/queued", "api", "cluster", "cluster/leader", "memory/store", "plan/slowdown", "controller/report", "sim", "sim/trace", "sim/forecast"}), nomad: true},
	}
}

// Each package in the tables imports, directly or not, only the listed packages of its
// program.
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
				ours = ours && !slices.Contains(shared, program+"/"+used)
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

// shared are the packages that all programs may import. They import none of ours.
var shared = []string{"driver/buildinfo", "driver/task/problem", "driver/task/stacks"}

// linted are the packages of the driver that `kolo job lint` uses: the checks of a user's
// settings, which start nothing and read nothing of the machine.
var linted = []string{"driver/agent/config", "driver/task/commandline", "driver/elastic", "driver/task/gpu", "driver/framework/horovod/options", "driver/task/settings",
	"driver/task/taskconfig", "driver/framework/torch/options", "driver/task/workerflags"}

// The three programs never import each other, nor each other's test fixtures, except for a
// linter of jobs. Their shared packages import none of them.
func TestImports_Programs(t *testing.T) {
	for name, pkg := range packages(t) {
		program, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"driver", "device", "autoscaler"}, program) {
			continue
		}
		for _, used := range own(pkg.Deps) {
			lint := (name == "autoscaler/job/lint" || name == "autoscaler/cmd/kolo") && slices.Contains(linted, used)
			if !strings.HasPrefix(used, program+"/") && !slices.Contains(shared, used) && !lint {
				t.Errorf("%s imports %s, which is not of its program", name, used)
			}
		}
	}
}

func TestImports_Shared(t *testing.T) {
	for _, name := range shared {
		must.SliceEmpty(t, own(packages(t)[name].Deps))
	}
}

// The driver plugin and the agent share a contract: the plugin imports no package that runs
// in an allocation.
func TestImports_Plugin(t *testing.T) {
	inAllocation := []string{"driver/agent", "driver/framework/horovod", "driver/launcher"}
	for _, used := range own(packages(t)["driver/plugin"].Deps) {
		for _, part := range inAllocation {
			if strings.HasPrefix(used, part) && used != "driver/agent/config" {
				t.Errorf("driver/plugin imports %s", used)
			}
		}
	}
}

// Kolo-worker is small: of Nomad, it links only the API.
func TestImports_Worker(t *testing.T) {
	for _, path := range packages(t)["driver/cmd/kolo-worker"].Deps {
		if strings.HasPrefix(path, "github.com/hashicorp/nomad/") && !strings.HasPrefix(path, "github.com/hashicorp/nomad/api") {
			t.Errorf("kolo-worker imports %s", path)
		}
	}
}

// Only the command imports the control loop: other packages know its types from package
// api.
func TestImports_ControlLoop(t *testing.T) {
	for name, pkg := range packages(t) {
		if slices.Contains(own(pkg.Imports), "autoscaler/controller") && name != "autoscaler/cmd/kolo" {
			t.Errorf("%s imports autoscaler/controller", name)
		}
	}
}
