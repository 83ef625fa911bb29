// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// Nomad 2 warns of a group with services and no shutdown_delay. No job of the
// project, its documentation or its tests causes that warning.
func TestGroupsWithServicesHaveAShutdownDelay(t *testing.T) {
	found := map[string]int{} // by extension
	must.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"): // testdata has jobs with mistakes
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".hcl", ".md", ".go"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, group := range groupBlocks(string(text)) {
			if slices.Contains(group, "service {") {
				found[filepath.Ext(path)]++
				must.True(t, slices.ContainsFunc(group, func(line string) bool { return strings.HasPrefix(line, "shutdown_delay ") }), must.Sprint(path))
			}
		}
		return nil
	}))
	must.Greater(t, 4, found[".hcl"])
	must.Greater(t, 2, found[".md"])
	must.Greater(t, 2, found[".go"])
}

// groupBlocks returns the lines of the group blocks of jobs in a text, without
// indentation. A block ends at the brace that is indented as its first line is, so
// that templates of jobs are read, too.
func groupBlocks(text string) [][]string {
	var blocks [][]string
	var end string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case end == "" && strings.HasPrefix(trimmed, "group ") && strings.HasSuffix(trimmed, "{"):
			end = line[:len(line)-len(strings.TrimLeft(line, " "))] + "}"
			blocks = append(blocks, nil)
		case line == end:
			end = ""
		case end != "":
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], trimmed)
		}
	}
	return blocks
}
