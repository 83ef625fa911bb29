// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// TestDocs_TrustIsStated compares the table of what policies trust with the code.
func TestDocs_TrustIsStated(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "policies.md"))
	must.NoError(t, err)
	by := map[registry.Trust][]string{}
	for _, name := range Policies.Names() {
		info, _ := Policies.Describe(name)
		by[info.Trusts] = append(by[info.Trusts], "`"+name+"`")
	}
	for _, trust := range []registry.Trust{registry.Nothing, registry.Lengths, registry.Times} {
		must.StrContains(t, string(b), fmt.Sprintf("\n| %s | %s |", trust, strings.Join(by[trust], ", ")))
	}
}

// TestDocs_CatalogueIsComplete compares docs/reference/policies.md with the code: every
// policy has its section, and every option has its row with the correct default.
func TestDocs_CatalogueIsComplete(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "policies.md"))
	must.NoError(t, err)
	doc := string(b)
	for _, name := range Policies.Names() {
		info, _ := Policies.Describe(name)
		must.StrContains(t, doc, "\n### "+name+"\n")
		must.StrContains(t, doc, info.Doc)
		must.StrContains(t, doc, info.Needs)
		for _, o := range info.Options {
			must.StrContains(t, doc, fmt.Sprintf("| `%s` | `%s` | %s |", o.Name, o.Default, o.Doc))
		}
	}
}
