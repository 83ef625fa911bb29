// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/shoenig/test/must"
)

const workflows = "../.github/workflows/*.yml"

func workflowFiles(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(workflows)
	must.NoError(t, err)
	must.SliceNotEmpty(t, names)
	files := map[string][]byte{}
	for _, name := range names {
		files[name], err = os.ReadFile(name)
		must.NoError(t, err)
	}
	return files
}

// Actionlint accepts the workflows, and reports a fault that is put into them.
func TestWorkflows(t *testing.T) {
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	must.NoError(t, err)
	for name, text := range workflowFiles(t) {
		found, err := l.Lint(name, text, nil)
		must.NoError(t, err)
		for _, e := range found {
			t.Error(e)
		}
		wrong := strings.Replace(string(text), "${{ github.ref }}", "${{ github.reff }}", 1)
		found, err = l.Lint(name, []byte(wrong), nil)
		must.NoError(t, err)
		must.SliceNotEmpty(t, found)
	}
}

// An action is named by its commit: a tag can be moved.
func TestWorkflows_PinnedActions(t *testing.T) {
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for name, text := range workflowFiles(t) {
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			must.RegexMatch(t, pinned, m[1], must.Sprint(name))
		}
	}
}

// Every make target that a workflow uses exists.
func TestWorkflows_Targets(t *testing.T) {
	var targets strings.Builder
	for _, makefile := range []string{"../GNUmakefile", "release.mk"} {
		text, err := os.ReadFile(makefile)
		must.NoError(t, err)
		targets.Write(text)
	}
	for name, text := range workflowFiles(t) {
		for _, m := range regexp.MustCompile(`(?m)^ *run: .*\bmake ([a-z][a-z0-9-]*)`).FindAllStringSubmatch(string(text), -1) {
			must.StrContains(t, targets.String(), "\n"+m[1]+":", must.Sprint(name))
		}
	}
}
