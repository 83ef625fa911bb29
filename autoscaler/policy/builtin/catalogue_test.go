// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestDescribe_EveryPolicyIsDocumented(t *testing.T) {
	must.SliceNotEmpty(t, Policies.Names())
	_, known := Policies.Describe(Default)
	must.True(t, known)
	for _, name := range Policies.Names() {
		t.Run(name, func(t *testing.T) {
			info, ok := Policies.Describe(name)
			must.True(t, ok)
			must.NotEq(t, "", info.Doc)
			must.NotEq(t, "", info.Source)
			must.NotEq(t, "", info.Needs)
			for _, o := range info.Options {
				must.NotEq(t, "", o.Doc, must.Sprint(o.Name))
				must.NotEq(t, "", o.Default, must.Sprint(o.Name))
			}
			p, err := Policies.New(name, nil)
			must.NoError(t, err)
			must.Eq(t, name, p.Name())
		})
	}
}
