// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package autoscaler_test asserts the directions of imports between the packages
// below.
package autoscaler_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const module = "github.com/kolo-nomad/kolo/"

// pure are the packages that do no I/O and know nothing of Nomad.
var pure = []string{"sizes", "nesting", "placement", "policy", "policy/builtin", "policy/registry", "policy/speedup", "planner", "history"}

// deps are the packages that the packages at a path import, directly or not,
// themselves included.
func deps(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", path).Output()
	must.NoError(t, err)
	return strings.Fields(string(out))
}

// What is pure imports only what is pure: no Nomad, no network.
func TestImports_Pure(t *testing.T) {
	for _, name := range pure {
		for _, pkg := range deps(t, "./"+name) {
			if own, ok := strings.CutPrefix(pkg, module); ok {
				must.SliceContains(t, pure, strings.TrimPrefix(own, "autoscaler/"), must.Sprintf("%s imports %s", name, pkg))
			}
			must.False(t, strings.HasPrefix(pkg, "github.com/hashicorp/nomad") || pkg == "net", must.Sprintf("%s imports %s", name, pkg))
		}
	}
}

// Each package imports, directly or not, only those of this module that are
// listed, besides itself and what is pure.
func TestImports_Directions(t *testing.T) {
	for name, uses := range map[string][]string{
		"api":        {},
		"printable":  {},
		"suggest":    {},
		"socket":     {},
		"audit":      {"printable"},
		"leader":     {},
		"jobspec":    {"suggest"},
		"config":     {},
		"store":      {"audit", "printable"},
		"cluster":    {"api", "audit", "config", "jobspec", "printable", "suggest"},
		"tokens":     {"api", "audit", "cluster", "config", "jobspec", "printable", "suggest"},
		"record":     {"api", "sim/trace"},
		"server":     {"api", "audit", "cluster", "config", "jobspec", "leader", "printable", "socket", "suggest"},
		"controller": {"api", "audit", "cluster", "config", "jobspec", "leader", "printable", "store", "suggest"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pkg := range deps(t, "./"+name) {
				if own, ok := strings.CutPrefix(pkg, module+"autoscaler/"); ok && own != name && !slices.Contains(pure, own) {
					must.SliceContains(t, uses, own, must.Sprintf("%s imports %s", name, pkg))
				}
			}
		})
	}
}

// The command alone imports the control loop: others know its types from package
// api.
func TestImports_ControlLoop(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "e2e", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{.}} {{$p}}{{"\n"}}{{end}}`, "../...").Output()
	must.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		if importer, ok := strings.CutPrefix(strings.TrimSpace(line), module+"autoscaler/controller "); ok {
			must.Eq(t, module+"autoscaler/cmd/kolo", importer)
		}
	}
}

// The three programs never import each other.
func TestImports_Wings(t *testing.T) {
	for wing, others := range map[string][]string{
		"autoscaler": {"driver/", "device/", "e2e/"},
		"driver":     {"autoscaler/", "device/", "e2e/"},
		"device":     {"autoscaler/", "driver/", "e2e/"},
	} {
		for _, pkg := range deps(t, "../"+wing+"/...") {
			for _, other := range others {
				must.False(t, strings.HasPrefix(pkg, module+other), must.Sprintf("%s imports %s", wing, pkg))
			}
		}
	}
}
