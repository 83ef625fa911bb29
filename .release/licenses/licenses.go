// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package licenses collects the licences of the modules that are linked into programs.
// Most licences require that every binary comes with a copy.
package licenses

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is a module that is linked into a program. Dir contains its source.
type Module struct{ Path, Version, Dir string }

// ErrNone means that a module has no file that looks like a licence.
var ErrNone = errors.New("has no licence file")

// file is what files with a licence, or with notices that have to go with it, are named.
var file = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense|patents)([-._].*)?$`)

// Text returns the licences of modules as one text. A licence that several modules share
// appears once, below the names of these modules.
func Text(modules []Module) (string, error) {
	users := map[string][]string{} // by text
	for _, m := range modules {
		texts, err := read(m.Dir)
		if err == nil && len(texts) == 0 {
			err = ErrNone
		}
		if err != nil {
			return "", fmt.Errorf("module %s %s: %w", m.Path, m.Version, err)
		}
		for _, text := range texts {
			users[text] = append(users[text], m.Path+" "+m.Version)
		}
	}
	for _, names := range users {
		slices.Sort(names)
	}
	texts := slices.SortedFunc(maps.Keys(users), func(a, b string) int { return slices.Compare(append(users[a], a), append(users[b], b)) })
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(strings.Repeat("=", 80) + "\n" + strings.Join(slices.Compact(users[text]), "\n") + "\n" + strings.Repeat("=", 80) + "\n\n" + text + "\n\n")
	}
	return b.String(), nil
}

// read returns the texts of the licence files of a directory.
func read(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		if !file.MatchString(e.Name()) || e.Type()&fs.ModeType != 0 || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(raw), "\r\n", "\n")
		texts = append(texts, strings.Trim(strings.ToValidUTF8(text, "?"), "\n"))
	}
	return texts, nil
}
