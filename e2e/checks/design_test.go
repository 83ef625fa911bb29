// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const designs = root + "/docs/design"

// recordParts are the headings of a design record, in their order.
var recordParts = []string{"Context", "Decision", "Rejected alternatives", "Consequences"}

var (
	citedTest   = regexp.MustCompile("`([Tt]est_?[A-Za-z]\\w*)`")
	definedTest = regexp.MustCompile(`(?m)^(?:func| +def) ([Tt]est\w+)\(`)
)

// Each design record has the four parts, stands in the index, and cites tests that exist.
func TestDesignRecords(t *testing.T) {
	index, err := os.ReadFile(designs + "/README.md")
	must.NoError(t, err)
	paths, err := filepath.Glob(designs + "/*.md")
	must.NoError(t, err)
	tests := testNames(t)
	records := 0
	for _, path := range paths {
		name := filepath.Base(path)
		if name == "README.md" {
			continue
		}
		records++
		text, err := os.ReadFile(path)
		must.NoError(t, err)
		if err := checkRecord(string(text), tests); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		must.StrContains(t, string(index), "]("+name+")")
	}
	must.Greater(t, 7, records)
}

// checkRecord reports what is wrong with the text of a record.
func checkRecord(text string, tests map[string]bool) error {
	var parts []string
	for line := range strings.Lines(text) {
		if part, ok := strings.CutPrefix(line, "## "); ok {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	if got, want := strings.Join(parts, ", "), strings.Join(recordParts, ", "); got != want {
		return fmt.Errorf("its parts are %q, not %q", got, want)
	}
	cited := citedTest.FindAllStringSubmatch(text, -1)
	if len(cited) == 0 {
		return errors.New("it cites no test")
	}
	for _, m := range cited {
		if !tests[m[1]] {
			return fmt.Errorf("there is no test %s", m[1])
		}
	}
	return nil
}

// testNames returns the names of all tests of the project, in Go and in Python.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	must.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "bin" || len(name) > 2 && name[0] == '.' && name != ".release" && name != ".monitoring" {
				return filepath.SkipDir
			}
			return nil
		}
		ofPython := strings.HasPrefix(name, "test_") && strings.HasSuffix(name, ".py")
		if !ofPython && !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range definedTest.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	}))
	return names
}

func TestDesignRecords_Mistakes(t *testing.T) {
	tests := map[string]bool{"TestThere": true, "test_there": true}
	good := "# A\n\n## Context\n\n## Decision\n\n## Rejected alternatives\n\n## Consequences\n\n`TestThere`, `test_there`.\n"
	must.NoError(t, checkRecord(good, tests))
	for name, text := range map[string]string{
		"no reasons":   strings.Replace(good, "## Rejected alternatives\n", "", 1),
		"other order":  strings.NewReplacer("Context", "Decision", "Decision", "Context").Replace(good),
		"unknown test": strings.Replace(good, "TestThere", "TestGone", 1),
		"no test":      "# A\n\n## Context\n\n## Decision\n\n## Rejected alternatives\n\n## Consequences\n",
	} {
		t.Run(name, func(t *testing.T) {
			must.Error(t, checkRecord(text, tests))
		})
	}
}
