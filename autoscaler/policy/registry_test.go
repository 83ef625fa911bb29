// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/shoenig/test/must"
)

func body(t *testing.T, src string) hcl.Body {
	t.Helper()
	f, diags := hclparse.NewParser().ParseHCL([]byte(src), "kolo.hcl")
	must.False(t, diags.HasErrors(), must.Sprint(diags))
	return f.Body
}

func TestNew_DefaultsAndOptions(t *testing.T) {
	p, err := New("elastic-fifo", nil)
	must.NoError(t, err)
	must.Eq(t, -1.0, p.(*elasticFIFO).Efficiency)

	p, err = New("elastic-fifo", body(t, "efficiency = 0.25"))
	must.NoError(t, err)
	must.Eq(t, 0.25, p.(*elasticFIFO).Efficiency)
}

func TestNew_ErrorsNameFileAndLine(t *testing.T) {
	for name, src := range map[string]string{
		"unknown option": "\nspeed = 1",
		"wrong type":     "\nefficiency = \"much\"",
		"bad value":      "\nefficiency = 7",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New("elastic-fifo", body(t, src))
			must.ErrorContains(t, err, "kolo.hcl:2,")
		})
	}
	_, err := New("nonesuch", nil)
	must.ErrorContains(t, err, `"nonesuch"`)
}

func TestParse(t *testing.T) {
	p, err := Parse("elastic-fifo(efficiency=0.25)")
	must.NoError(t, err)
	must.Eq(t, 0.25, p.(*elasticFIFO).Efficiency)
	_, err = Parse("fifo")
	must.NoError(t, err)
	p, err = Parse(" fifo(strict = true) ")
	must.NoError(t, err)
	must.True(t, p.(*fifo).Strict)

	for name, spec := range map[string]string{
		"open":    "fifo(strict=true",
		"garbage": "fifo(strict=)",
		"unknown": "fifo(loose=true)",
		"empty":   "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(spec)
			must.Error(t, err)
		})
	}
}

func TestDescribe_EveryPolicyIsDocumented(t *testing.T) {
	must.SliceNotEmpty(t, Names())
	_, known := Describe(Default)
	must.True(t, known)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			info, ok := Describe(name)
			must.True(t, ok)
			must.NotEq(t, "", info.Doc)
			must.NotEq(t, "", info.Source)
			must.NotEq(t, "", info.Needs)
			for _, o := range info.Options {
				must.NotEq(t, "", o.Doc, must.Sprint(o.Name))
				must.NotEq(t, "", o.Default, must.Sprint(o.Name))
			}
			p, err := New(name, nil)
			must.NoError(t, err)
			must.Eq(t, name, p.Name())
		})
	}
}
