// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package waiting

import (
	"os"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

// The reference has a row for each reason, and no other.
func TestAll_Documented(t *testing.T) {
	reference, err := os.ReadFile("../../../docs/reference/api.md")
	must.NoError(t, err)
	section := regexp.MustCompile(`(?s)\n### Reasons to wait\n.*?\n##`).Find(reference)
	var rows []Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(section, -1) {
		rows = append(rows, Reason(row[1]))
	}
	must.Eq(t, All(), rows)
}
