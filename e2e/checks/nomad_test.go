// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// fakeGo replaces go for e2e/nomad/setup.sh. The programs that it builds print
// $BUILT, and $LOG has its arguments.
const fakeGo = `#!/bin/bash
echo "$*" >>"$LOG"
case "$*" in
  "list -deps"*) echo a ;;
  "list -m"*@*) echo "$SRC 20250909143645 a3b86c697f38ab032e1acaae8503ed10815bc4a2" ;;
  "list "*) echo v1.11.3 ;;
  "mod download "*v9*) exit 1 ;;
  "mod download "*/api@*) [ -z "$NO_API" ] || exit 1 ;;
  "build "*)
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\necho "%s"\n' "$BUILT" >"$2"; chmod +x "$2" ;;
esac
`

// e2e/nomad/setup.sh replaces no Nomad without saying so, and builds others next to
// it.
func TestNomadSetup(t *testing.T) {
	script, err := os.ReadFile("../nomad/setup.sh")
	must.NoError(t, err)
	for name, tc := range map[string]struct {
		have  map[string]string // programs by path, with what each prints as its version
		built string            // what a build prints
		arg   string
		fails bool
		says  []string
		want  map[string]string
		asks  string // of go
		noAPI string // not empty: the module proxy lacks Nomad's API
	}{
		"nothing is there":           {built: "Nomad v1.11.3", says: []string{"building Nomad v1.11.3", "built Nomad 1.11.3"}, want: map[string]string{"bin/nomad": "Nomad v1.11.3"}},
		"a new one is there":         {have: map[string]string{"bin/nomad": "Nomad v2.0.5"}, says: []string{"Nomad 2.0.5 is in bin/nomad"}, want: map[string]string{"bin/nomad": "Nomad v2.0.5"}},
		"a development build":        {have: map[string]string{"bin/nomad": "Nomad v2.0.6-dev"}, says: []string{"Nomad 2.0.6 is in bin/nomad"}, want: map[string]string{"bin/nomad": "Nomad v2.0.6-dev"}},
		"one that prints no version": {have: map[string]string{"bin/nomad": "Nomad of mine"}, built: "Nomad v1.11.3", says: []string{"WARNING: bin/nomad prints 'Nomad of mine '", "REPLACED", "make e2e NOMAD=bin/nomad.old"}, want: map[string]string{"bin/nomad": "Nomad v1.11.3", "bin/nomad.old": "Nomad of mine"}},
		"one that is too old":        {have: map[string]string{"bin/nomad": "Nomad v1.7.7"}, built: "Nomad v1.11.3", says: []string{"WARNING: bin/nomad prints 'Nomad v1.7.7 '"}, want: map[string]string{"bin/nomad": "Nomad v1.11.3", "bin/nomad.old": "Nomad v1.7.7"}},
		"a build that is too old":    {built: "Nomad v1.0.0", fails: true, says: []string{"is older than 1.8.0"}, want: map[string]string{"bin/nomad": "Nomad v1.0.0"}},

		"a path":                     {have: map[string]string{"bin/nomad": "Nomad v1.11.3", "my/nomad": "Nomad v2.0.5"}, arg: "my/nomad", says: []string{"using Nomad 2.0.5 at my/nomad"}, want: map[string]string{"bin/nomad": "Nomad v1.11.3"}},
		"a path that prints another": {have: map[string]string{"my/nomad": "Nomad of mine"}, arg: "my/nomad", says: []string{"WARNING: my/nomad prints 'Nomad of mine '", "it is used as it is"}, want: map[string]string{}},
		"a path that is too old":     {have: map[string]string{"my/nomad": "Nomad v1.7.7"}, arg: "my/nomad", fails: true, says: []string{"is Nomad 1.7.7, older than 1.8.0"}, want: map[string]string{}},
		"a path of nothing":          {arg: "my/nomad", fails: true, says: []string{"NOMAD=my/nomad is no program"}, want: map[string]string{}},
		"neither path nor version":   {arg: "latest", fails: true, says: []string{"neither a version, such as 1.10.5, nor a path"}, want: map[string]string{}},

		"a version": {
			have: map[string]string{"bin/nomad": "Nomad v1.11.3"}, arg: "v1.10.5", built: "Nomad v1.10.5", says: []string{"building Nomad 1.10.5", "using Nomad 1.10.5 in bin/nomad-1.10.5"},
			want: map[string]string{"bin/nomad": "Nomad v1.11.3", "bin/nomad-1.10.5": "Nomad v1.10.5"},
			asks: "mod edit -replace github.com/hashicorp/nomad/api=github.com/hashicorp/nomad/api@v0.0.0-20250909143645-a3b86c697f38 build.mod",
		},
		"a version that is there":    {have: map[string]string{"bin/nomad-1.10.5": "Nomad v1.10.5"}, arg: "1.10.5", says: []string{"using Nomad 1.10.5"}, want: map[string]string{"bin/nomad-1.10.5": "Nomad v1.10.5"}},
		"a version that is another":  {have: map[string]string{"bin/nomad-1.10.5": "Nomad v1.9.0"}, arg: "1.10.5", fails: true, says: []string{"is no Nomad 1.10.5: it prints 'Nomad v1.9.0 '"}, want: map[string]string{"bin/nomad-1.10.5": "Nomad v1.9.0"}},
		"a version's development":    {have: map[string]string{"bin/nomad-2.0.5": "Nomad v2.0.5-dev"}, arg: "2.0.5", fails: true, says: []string{"is no Nomad 2.0.5: it prints 'Nomad v2.0.5-dev '"}, want: map[string]string{"bin/nomad-2.0.5": "Nomad v2.0.5-dev"}},
		"a version before a release": {built: "Nomad v1.11.0-beta.1", arg: "1.11.0-beta.1", says: []string{"using Nomad 1.11.0-beta.1 in bin/nomad-1.11.0-beta.1"}, want: map[string]string{"bin/nomad-1.11.0-beta.1": "Nomad v1.11.0-beta.1"}},
		"a version that is too old":  {arg: "1.7.7", fails: true, says: []string{"older than 1.8.0"}, want: map[string]string{}},
		"a version no one has":       {arg: "9.0.0", fails: true, says: []string{"no Nomad v9.0.0 can be had", "NOMAD=<path>"}, want: map[string]string{}},
		"a version without its API":  {arg: "1.8.4", noAPI: "1", fails: true, says: []string{"has Nomad v1.8.4, but not the API", "NOMAD=<path>"}, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(path, text string) {
				path = filepath.Join(dir, path)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.NoError(t, os.WriteFile(path, []byte(text), 0o755))
			}
			write("e2e/nomad/setup.sh", string(script))
			write("path/go", fakeGo)
			write("src/go.mod", "module x\n")
			write("src/go.sum", "")
			for path, prints := range tc.have {
				write(path, fmt.Sprintf("#!/bin/sh\necho %q\n", prints))
			}
			cmd := exec.Command("e2e/nomad/setup.sh", strings.Fields(tc.arg)...)
			cmd.Dir = dir
			// A Nomad that the machine has is none of this test's.
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":/usr/bin:/bin", "SRC=" + filepath.Join(dir, "src"), "BUILT=" + tc.built, "NO_API=" + tc.noAPI, "LOG=" + filepath.Join(dir, "log")}
			out, err := cmd.CombinedOutput()
			must.Eq(t, tc.fails, err != nil, must.Sprint(string(out)))
			for _, text := range tc.says {
				must.StrContains(t, string(out), text)
			}
			got := map[string]string{}
			paths, err := filepath.Glob(filepath.Join(dir, "bin", "nomad*"))
			must.NoError(t, err)
			for _, path := range paths {
				prints, err := exec.Command(path, "version").Output()
				must.NoError(t, err)
				got["bin/"+filepath.Base(path)] = strings.TrimSpace(string(prints))
			}
			must.Eq(t, tc.want, got, must.Sprint(slices.Sorted(maps.Keys(got))))
			asked, _ := os.ReadFile(filepath.Join(dir, "log")) // go may not have been asked
			must.StrContains(t, string(asked), tc.asks)
			left, err := filepath.Glob(filepath.Join(dir, "bin", ".nomad-*"))
			must.NoError(t, err)
			must.SliceEmpty(t, left)
		})
	}
}
