// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// A script is an elastic training script that users are shown.
type script struct {
	// name is the file that has it, and those that have the same.
	name      string
	framework string
	text      string
}

var (
	decorator = regexp.MustCompile(`(?m)^ *@(hvd|kolo)\.elastic\b`)
	// Where scripts are: a fenced block of Markdown, a shell's or HCL's here-document.
	pythonBlock = regexp.MustCompile("(?ms)^```python\n(.*?)^```$")
	heredoc     = regexp.MustCompile(`(?ms)<<-?'?([A-Z]+)'?$\n(.*?)^ *[A-Z]+$`)
)

// parts of scripts, by a line that only they have, which run only within another.
var parts = []string{
	"state = kolo.State(sharded=kolo.Sharded(build,", // python/README.md: what a sharded model changes
	"step(ddp, state.optimizer, x, y)",               // README.md; TestReadmeScript has the rest
}

// elasticScripts returns the elastic scripts of the documentation, the job specifications,
// the packs and the examples, as they stand, except those of docs/examples, which have
// their own test. Scripts with the same text are one.
func elasticScripts(t *testing.T) []script {
	t.Helper()
	var scripts []script
	must.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "../")
		if entry.IsDir() {
			if name != ".." && strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "e2e", "python/kolo", "python/tests", "docs/examples"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".md", ".hcl", ".tpl", ".py"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := scriptsIn(name, string(text))
		scripts = append(scripts, found...)
		return err
	}))
	return unique(scripts)
}

// scriptsIn returns the elastic scripts of a file. It is an error if the file has more of them
// than can be taken out of it.
func scriptsIn(name, text string) ([]script, error) {
	var blocks []string
	if filepath.Ext(name) == ".py" {
		blocks = append(blocks, text)
	}
	for _, m := range pythonBlock.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	for _, m := range heredoc.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, unindented(m[2]))
	}
	var scripts []script
	left := len(decorator.FindAllString(text, -1))
	for _, block := range blocks {
		decorators := decorator.FindAllStringSubmatch(block, -1)
		left -= len(decorators)
		if len(decorators) == 0 || slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(block, part) }) {
			continue
		}
		if strings.Contains(block, "AdaptiveBatch") {
			continue // its steps have different numbers of samples; python/tests/test_adaptive_group.py runs it
		}
		framework := map[string]string{"hvd": "horovod", "kolo": "torch"}[decorators[0][1]]
		scripts = append(scripts, script{name, framework, block})
	}
	if left != 0 {
		return nil, fmt.Errorf("%s: %d elastic functions are in no Python block and no here-document", name, left)
	}
	return scripts, nil
}

// unindented takes away the indentation of the first line, as HCL does.
func unindented(text string) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n"+indent, "\n"), "\n")
}

// unique joins the names of scripts that differ in nothing but what a GPU needs.
func unique(scripts []script) []script {
	gpu := regexp.MustCompile(`(?m)\.cuda\(\)|^ *torch\.cuda\.set_device\(.*\)\n`)
	var different []script
	for _, s := range scripts {
		s.text = gpu.ReplaceAllString(s.text, "")
		if i := slices.IndexFunc(different, func(d script) bool { return d.text == s.text }); i >= 0 {
			different[i].name += ", " + s.name
			continue
		}
		different = append(different, s)
	}
	return different
}

// No script is overlooked: each place with scripts is known, and a script elsewhere is an
// error.
func TestElasticScriptsAreFound(t *testing.T) {
	var names []string
	for _, s := range elasticScripts(t) {
		names = append(names, strings.Split(s.name, ", ")...)
	}
	must.SliceContainsSubset(t, names, []string{
		"docs/tutorial.md", "docs/howto/write-an-elastic-script.md", "docs/howto/write-an-elastic-pytorch-script.md", "python/README.md",
		"jobspecs/horovod.nomad.hcl", "jobspecs/torch.nomad.hcl", "jobspecs/container.nomad.hcl",
	})
	_, err := scriptsIn("docs/new.md", "~~~\n@hvd.elastic.run\ndef train(state):\n~~~\n")
	must.ErrorContains(t, err, "docs/new.md: 1 elastic functions are in no Python block")
	found, err := scriptsIn("docs/new.md", "```sh\ncat >train.py <<'END'\nimport torch\n@kolo.elastic\nEND\n```\n")
	must.NoError(t, err)
	must.Eq(t, []script{{"docs/new.md", "torch", "import torch\n@kolo.elastic\n"}}, found)
}
