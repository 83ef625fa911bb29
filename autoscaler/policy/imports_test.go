// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestImports asserts the directions of imports between the packages of
// decisions. Each imports, directly or not, only those of this module that are
// listed, and none knows Nomad.
func TestImports(t *testing.T) {
	const module, nomad = "github.com/kolo-nomad/kolo/autoscaler/", "github.com/hashicorp/nomad"
	contract := []string{"sizes", "policy/speedup", "policy"}
	for name, uses := range map[string][]string{
		"sizes":           nil,
		"placement":       nil,
		"policy/speedup":  nil,
		"policy":          {"sizes", "policy/speedup"},
		"policy/registry": append(contract, "nesting"),
		"policy/builtin":  append(contract, "nesting", "policy/registry"),
		"policy/plugin":   append(contract, "nodump", "policy/plugin/policypb"),
		"planner":         {"sizes", "placement"},
		"sim":             append(contract, "placement", "sim/trace"),
	} {
		t.Run(name, func(t *testing.T) {
			allowed := map[string]bool{module + name: true}
			for _, used := range uses {
				allowed[module+used] = true
			}
			out, err := exec.Command("go", "list", "-deps", module+name).Output()
			must.NoError(t, err)
			for pkg := range strings.Lines(string(out)) {
				pkg = strings.TrimSpace(pkg)
				must.True(t, !strings.HasPrefix(pkg, "github.com/kolo-nomad/kolo/") || allowed[pkg], must.Sprint(pkg))
				must.False(t, strings.HasPrefix(pkg, nomad), must.Sprint(pkg))
			}
		})
	}
}
