// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// TestClassKey_Versions covers constraints that Nomad evaluates with hashicorp/go-version.
// Those that the autoscaler can't evaluate count as met.
func TestClassKey_Versions(t *testing.T) {
	n := &node{detailed: true, wireNode: wireNode{Attributes: map[string]string{
		"kernel.name": "linux", "kernel.version": "5.10.0-19-amd64",
		"nomad.version": "1.11.3", "nomad.beta": "1.12.0-beta.1", "driver.version": "1.10.2",
	}}}
	for name, tc := range map[string]struct {
		attribute, operand, versions string
		want                         bool
	}{
		"version":               {"nomad.version", "version", ">= 1.8, < 2", true},
		"version too old":       {"nomad.version", "version", ">= 1.12", false},
		"version, not text":     {"driver.version", "version", ">= 1.9", true},
		"version, not precise":  {"driver.version", "version", "~> 1.9", true},
		"version, precisely":    {"driver.version", "version", "~> 1.9.0", false},
		"version of a kernel":   {"kernel.version", "version", ">= 5.10.0-0", true},
		"pre-release":           {"nomad.beta", "version", ">= 1.8", false},
		"no version":            {"kernel.name", "version", ">= 0", false},
		"version not there":     {"row.version", "version", ">= 0", false},
		"semver":                {"nomad.version", "semver", ">= 1.8.0, < 2.0.0", true},
		"semver too old":        {"nomad.version", "semver", ">1.11.3", false},
		"semver pre-release":    {"nomad.beta", "semver", ">= 1.8", true},
		"semver before release": {"nomad.beta", "semver", ">= 1.12.0", false},
		"semver equal":          {"nomad.version", "semver", "1.11.3", true},
		"semver unequal":        {"nomad.version", "semver", "!= 1.11.3", false},
		"semver not there":      {"row.version", "semver", ">= 0.0.0", false},
		"no semver constraint":  {"nomad.version", "semver", "~> 9", true},
		"no version constraint": {"nomad.version", "version", "=> 9", true},
		"version of a node":     {"nomad.version", "version", "${meta.rack}", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := classKey{constraints: "${attr." + tc.attribute + "}" + fieldSeparator + tc.operand + fieldSeparator + tc.versions}
			must.Eq(t, tc.want, k.feasible(n, k.prepared()))
		})
	}
}

// TestConstraint_LongSetsCostLittle: a job's author wrote long lists on both sides. The
// time to compare them grows with their length, not with its square.
func TestConstraint_LongSetsCostLittle(t *testing.T) {
	list := func(kind string) target {
		out := make([]string, 60_000)
		for i := range out {
			out[i] = fmt.Sprintf("%08d%s", i, kind)
		}
		return target{strings.Join(out, ","), true}
	}
	left, right := list("l"), list("r")
	begun := time.Now()
	must.True(t, (&constraint{operand: api.ConstraintSetContains}).met(left, left))
	must.False(t, (&constraint{operand: api.ConstraintSetContainsAny}).met(left, right))
	must.Less(t, 5*time.Second, time.Since(begun))
}
