// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// target is one fuzz target of a package.
type target struct {
	pkg  string // import path
	dir  string
	name string
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// targets returns the fuzz targets whose names match, sorted by package and name.
// patterns select the packages in the module at dir.
func targets(ctx context.Context, dir string, match *regexp.Regexp, patterns []string) ([]target, error) {
	cmd := command(ctx, dir, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	found, err := readTargets(out, match)
	return found, errors.Join(err, wrap("go list", cmd.Wait()))
}

// readTargets parses the output of go list.
func readTargets(r io.Reader, match *regexp.Regexp) ([]target, error) {
	var found []target
	dec := json.NewDecoder(r)
	for {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list prints: %w", err)
		}
		var names []string
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
				if match.Match(m[1]) {
					names = append(names, string(m[1]))
				}
			}
		}
		slices.Sort(names)
		for _, name := range names {
			found = append(found, target{pkg: p.ImportPath, dir: p.Dir, name: name})
		}
	}
}
