// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// echo is a policy that keeps all counts, with options of two types and a rule.
type echo struct {
	Efficiency float64 `hcl:"efficiency,optional" doc:"at most 1"`
	Strict     bool    `hcl:"strict,optional" doc:"yes or no"`
}

func (e echo) Check() (string, string) {
	if e.Efficiency > 1 {
		return "efficiency", "must be at most 1"
	}
	return "", ""
}

func (e echo) allocate(s *policy.Snapshot) (d policy.Decision) {
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Count})
	}
	return d
}

var policies = List{
	Define(Info{Name: "echo", Doc: "keeps all counts"}, echo{Efficiency: -1}, echo.allocate),
}

func body(t *testing.T, src string) hcl.Body {
	t.Helper()
	f, diags := hclparse.NewParser().ParseHCL([]byte(src), "kolo.hcl")
	must.False(t, diags.HasErrors(), must.Sprint(diags))
	return f.Body
}

func TestNew_DefaultsAndOptions(t *testing.T) {
	p, err := policies.New("echo", nil)
	must.NoError(t, err)
	must.Eq(t, -1.0, p.(*optioned[echo]).options.Efficiency)

	p, err = policies.New("echo", body(t, "efficiency = 0.25"))
	must.NoError(t, err)
	must.Eq(t, 0.25, p.(*optioned[echo]).options.Efficiency)
}

func TestNew_ErrorsNameFileAndLine(t *testing.T) {
	for name, src := range map[string]string{
		"unknown option": "\nspeed = 1",
		"wrong type":     "\nefficiency = \"much\"",
		"bad value":      "\nefficiency = 7",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policies.New("echo", body(t, src))
			must.ErrorContains(t, err, "kolo.hcl:2,")
		})
	}
	_, err := policies.New("nonesuch", nil)
	must.ErrorContains(t, err, `"nonesuch"`)
}

func TestParse(t *testing.T) {
	p, err := policies.Parse("echo(efficiency=0.25)")
	must.NoError(t, err)
	must.Eq(t, 0.25, p.(*optioned[echo]).options.Efficiency)
	_, err = policies.Parse("echo")
	must.NoError(t, err)
	p, err = policies.Parse(" echo(strict = true) ")
	must.NoError(t, err)
	must.True(t, p.(*optioned[echo]).options.Strict)

	for name, spec := range map[string]string{
		"open":    "echo(strict=true",
		"garbage": "echo(strict=)",
		"unknown": "echo(loose=true)",
		"empty":   "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policies.Parse(spec)
			must.Error(t, err)
		})
	}
}

func TestDescribe(t *testing.T) {
	must.Eq(t, []string{"echo"}, policies.Names())
	info, ok := policies.Describe("echo")
	must.True(t, ok)
	must.Eq(t, []Option{
		{Name: "efficiency", Type: "float", Default: "-1", Doc: "at most 1"},
		{Name: "strict", Type: "bool", Default: "false", Doc: "yes or no"},
	}, info.Options)
	_, ok = policies.Describe("nonesuch")
	must.False(t, ok)
}
