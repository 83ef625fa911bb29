// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
)

// Load reads a file, or all *.hcl files of a directory as if they were one.
// An empty path gives the defaults.
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	sources, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(sources)
}

// Read returns the content of the files that a configuration is made of, by their names.
func Read(path string) (map[string][]byte, error) {
	files, err := Files(path)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	sources := map[string][]byte{}
	for _, f := range files {
		if sources[f], err = os.ReadFile(f); err != nil {
			return nil, fmt.Errorf("reading configuration: %w", err)
		}
		if len(bytes.TrimSpace(sources[f])) == 0 { // half written, more often than meant
			return nil, fmt.Errorf("reading configuration: %s is empty; write a comment into it to use the defaults on purpose", f)
		}
	}
	return sources, nil
}

// Files returns the files of the configuration at a path: the file itself, or the
// *.hcl files of a directory.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.hcl"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no *.hcl file in %s", path)
	}
	return files, err
}

// Parse reads sources by file name, in alphabetical order.
func Parse(sources map[string][]byte) (*Config, error) {
	parser := hclparse.NewParser()
	var files []*hcl.File
	var diags hcl.Diagnostics
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if err := nesting.File(name, sources[name]); err != nil {
			return nil, err
		}
		f, d := parser.ParseHCL(sources[name], name)
		diags = append(diags, d...)
		if f != nil {
			files = append(files, f)
		}
	}
	if diags.HasErrors() {
		return nil, asError(diags)
	}
	c := Default()
	if diags = c.decode(hcl.MergeFiles(files)); diags.HasErrors() {
		return nil, asError(diags)
	}
	return c, nil
}

// asError puts each diagnostic on a line of its own: file:line: what; fix.
func asError(diags hcl.Diagnostics) error {
	var errs []error
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		where := ""
		if d.Subject != nil {
			where = fmt.Sprintf("%s:%d: ", d.Subject.Filename, d.Subject.Start.Line)
		}
		errs = append(errs, errors.New(where+strings.TrimSuffix(d.Summary, ".")+": "+d.Detail))
	}
	return errors.Join(errs...)
}

func (c *Config) decode(body hcl.Body) hcl.Diagnostics {
	blocks := c.blocks()
	schema := []hcl.BlockHeaderSchema{{Type: "pool", LabelNames: []string{"node pool"}}, {Type: "notify", LabelNames: []string{"name"}}}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		if name != "" {
			schema = append(schema, hcl.BlockHeaderSchema{Type: name})
		}
	}
	content, diags := blocks[""].read(body, schema...)
	for _, d := range diags {
		for _, inside := range []string{"policy", "queue", "reservation", "topology"} {
			if d.Summary == "Unsupported block type" && strings.Contains(d.Detail, fmt.Sprintf("%q", inside)) {
				d.Detail += fmt.Sprintf(" Write it inside of pool %q { … }.", "<node pool>")
			}
		}
	}
	first := map[string]*hcl.Block{}
	for _, b := range content.Blocks {
		key := b.Type
		if len(b.Labels) > 0 {
			key = fmt.Sprintf("%s %q", b.Type, b.Labels[0])
		}
		if before := first[key]; before != nil {
			diags = append(diags, wrong(b.DefRange, "Repeated block",
				fmt.Sprintf("%s was already written at %s; keep one of the two.", key, before.DefRange.String())))
			continue
		}
		first[key] = b
		switch b.Type {
		case "pool":
			diags = append(diags, c.pool(b)...)
		case "notify":
			diags = append(diags, c.notify(b)...)
		case "http":
			diags = append(diags, c.http(b)...)
		default:
			_, more := blocks[b.Type].read(b.Body)
			diags = append(diags, more...)
		}
	}
	return diags
}
