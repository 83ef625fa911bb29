// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// ofTasks are the calls that kolo logs and kolo stacks make with the user's token. They need
// running tasks, which the stand-in lacks, so they are tested with a real Nomad only: by
// TestLogs and TestStacks.
var ofTasks = []string{"AllocFS.Logs", "Allocations.Exec", "Allocations.Info", "Jobs.Allocations"}

// TestCalls checks that each call of Nomad's API in the autoscaler has a scenario.
func TestCalls(t *testing.T) {
	made, asserted := map[string]string{}, map[string]string{}
	read := func(path string, into map[string]string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must.NoError(t, err)
		if slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"github.com/hashicorp/nomad/api"` }) {
			for call := range calls(t, path, f) {
				into[call] = path
			}
		}
	}
	must.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "contract", d.IsDir() && d.Name() == "internal":
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			read(path, made)
		}
		return nil
	}))
	own, err := filepath.Glob("*.go")
	must.NoError(t, err)
	for _, path := range own {
		if !strings.HasSuffix(path, "_test.go") && path != "fields.go" {
			read(path, asserted)
		}
	}
	must.Greater(t, 20, len(made), must.Sprint(slices.Sorted(maps.Keys(made))))
	for _, call := range ofTasks {
		must.StrHasPrefix(t, "../../cmd/kolo/", made[call], must.Sprint(call))
		delete(made, call)
	}
	for call, path := range made {
		must.MapContainsKey(t, asserted, call, must.Sprintf("%s calls it; add a scenario that does, and the stand-in's answer", path))
	}
	for path := range Fields {
		must.True(t, asserted[path] != "" || path == "/v1/job/{}", must.Sprint(path, " is of no call"))
	}
}

// calls returns what a file calls of Nomad's API: Jobs.Info for client.Jobs().Info, and
// the paths of requests without such a method, with {} for what is not literal.
func calls(t *testing.T, path string, f *ast.File) map[string]bool {
	parts := map[string]bool{} // Jobs, Nodes, …
	client := reflect.TypeFor[*api.Client]()
	for i := range client.NumMethod() {
		if m := client.Method(i); m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Pointer && m.Name != "Raw" {
			parts[m.Name] = true
		}
	}
	out, used := map[string]bool{}, map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if part := method(n.X); parts[part] {
				used[n.X] = true
				out[part+"."+n.Sel.Name] = true
			}
		case *ast.CallExpr:
			must.True(t, used[n] || !parts[method(n)], must.Sprintf("%s keeps %s; call its method at once, to be found here", path, method(n)))
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "strings" {
				return true // a comparison
			}
			for _, arg := range n.Args {
				if p := literal(arg); strings.HasPrefix(p, "/v1/") {
					p, _, _ = strings.Cut(p, "?")
					out[p] = true
				}
			}
		}
		return true
	})
	return out
}

// method is the name of the method that an expression calls without arguments.
func method(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 0 {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			return s.Sel.Name
		}
	}
	return ""
}

// literal is the text of a string, with {} for its parts that are none.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil && e.Kind == token.STRING {
			return text
		}
	}
	return "{}"
}
