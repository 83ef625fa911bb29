// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// Waits in tests may take long on a loaded machine, and a generous bound costs nothing if
// they end soon. Without a bound, a wait ends after 3 s.
func TestWaitsHaveGenerousBounds(t *testing.T) {
	must.SliceEmpty(t, shortWaits(t, os.DirFS("../..")))

	dir := module(t, map[string]string{"a_test.go": `package a
var (
	_ = wait.InitialSuccess(f, wait.Timeout(time.Minute), wait.Gap(time.Second))
	_ = wait.InitialSuccess(f, wait.Timeout(patience))
	_ = wait.InitialSuccess(f)
	_ = wait.InitialSuccess(f, wait.Timeout(20*time.Second))
	_ = wait.ContinualSuccess(f, wait.Timeout(time.Second))
)`})
	must.Eq(t, []string{"a_test.go:5:6", "a_test.go:6:6"}, shortWaits(t, os.DirFS(dir)))
}

// shortWaits returns the places where tests wait for something, except those with a bound of
// minutes or with a name.
func shortWaits(t *testing.T, root fs.FS) []string {
	t.Helper()
	var short []string
	must.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || path != "." && strings.HasPrefix(filepath.Base(path), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call := callOf(n, "InitialSuccess"); call != nil && !generous(call.Args) {
				short = append(short, files.Position(call.Pos()).String())
			}
			return true
		})
		return nil
	}))
	return short
}

// generous reports whether the options of a wait have such a bound.
func generous(options []ast.Expr) bool {
	for _, o := range options {
		call := callOf(o, "Timeout")
		if call == nil || len(call.Args) != 1 {
			continue
		}
		arg := call.Args[0]
		if product, ok := arg.(*ast.BinaryExpr); ok {
			arg = product.Y
		}
		unit, ok := arg.(*ast.SelectorExpr)
		return !ok || unit.Sel.Name == "Minute"
	}
	return false
}

// callOf returns the node if it is a call of a package's function of that name, or nil.
func callOf(n ast.Node, name string) *ast.CallExpr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != name {
		return nil
	}
	return call
}
