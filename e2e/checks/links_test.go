// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/shoenig/test/must"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading = regexp.MustCompile(`^#{1,6} (.+)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	fence   = regexp.MustCompile("^ *```")
)

// page is a Markdown file: its links, and the anchors that others may link to.
type page struct {
	links   []string
	anchors map[string]bool
}

func readPage(path string) (page, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return page{}, err
	}
	p := page{anchors: map[string]bool{}}
	fenced := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if fence.MatchString(line) {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchors[slug(m[1])] = true
		}
		for _, m := range anchor.FindAllStringSubmatch(line, -1) {
			p.anchors[m[1]] = true
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			p.links = append(p.links, m[1])
		}
	}
	return p, nil
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	heading = link.ReplaceAllString(heading, "]")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// markdown lists the project's pages.
func markdown(t *testing.T) []string {
	t.Helper()
	var paths []string
	must.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		hidden := len(name) > 2 && name[0] == '.'
		if d.IsDir() && (name == "bin" || name == "node_modules" || hidden) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return nil
	}))
	return paths
}

// Links from one file of the project to another lead to a file that exists, and
// to a heading or anchor in it.
func TestLinks(t *testing.T) {
	pages := map[string]page{}
	for _, path := range markdown(t) {
		p, err := readPage(path)
		must.NoError(t, err)
		pages[path] = p
	}
	checked := 0
	for path, p := range pages {
		for _, link := range p.links {
			if strings.Contains(link, "://") {
				continue
			}
			checked++
			file, at, _ := strings.Cut(link, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", path, link)
				continue
			}
			if to, isPage := pages[target]; at != "" && isPage && !to.anchors[at] {
				t.Errorf("%s: %s has no heading or anchor %q", path, target, at)
			}
		}
	}
	must.Greater(t, 100, checked)
}

// Each page of the documentation can be reached from its index.
func TestDocsAreIndexed(t *testing.T) {
	index, err := readPage(root + "/docs/README.md")
	must.NoError(t, err)
	listed := map[string]bool{filepath.Join(root, "docs/README.md"): true}
	for _, link := range index.links {
		file, _, _ := strings.Cut(link, "#")
		listed[filepath.Join(root, "docs", file)] = true
	}
	for _, path := range markdown(t) {
		if strings.HasPrefix(path, filepath.Join(root, "docs")) && !listed[path] {
			t.Errorf("docs/README.md does not link to %s", path)
		}
	}
}
