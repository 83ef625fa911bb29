// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// TestDocs_CatalogueIsComplete keeps docs/reference/policies.md in step with the code:
// every policy has its section, every option its row with the true default.
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
