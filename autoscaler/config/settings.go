// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// setting is one attribute of a block. Its line in the block's table is all that
// is written of it: name, default, format with bounds, and description.
// Configurations are read by it, and the reference in docs is compared with it.
type setting struct {
	name     string
	fallback string // as the reference shows it
	format   string
	doc      string
	reset    func() // to the default
	read     func(*hcl.Attribute) hcl.Diagnostics
}

// define makes the setting of a field.
func define[T any](name string, field *T, fallback T, f format[T], doc string) setting {
	return setting{
		name: name, fallback: show(fallback), format: f.name, doc: doc,
		reset: func() { *field = fallback },
		read: func(a *hcl.Attribute) hcl.Diagnostics {
			v, diags := f.read(a)
			if !diags.HasErrors() {
				*field = v
			}
			return diags
		},
	}
}

// or describes a default that is no value.
func (s setting) or(fallback string) setting {
	s.fallback = fallback
	return s
}

// renamed refuses the name that a setting had before.
func renamed(before, name string) setting {
	return setting{name: before, reset: func() {}, read: func(a *hcl.Attribute) hcl.Diagnostics {
		return hcl.Diagnostics{wrong(a.NameRange, "Renamed argument", fmt.Sprintf("%s was renamed to %s; write %s = ….", before, name, name))}
	}}
}

// show returns a default as it is written in a configuration, without quotes.
func show(v any) string {
	var text string
	switch v := v.(type) {
	case []string:
	case time.Duration:
		text = v.String()
		for _, unit := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, unit) {
				text = text[:len(text)-2]
			}
		}
	default:
		text = fmt.Sprint(v)
	}
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// settings are a block's.
type settings []setting

func (s settings) reset() {
	for i := range s {
		s[i].reset()
	}
}

// read applies the settings to a body that may hold the given blocks.
// Unknown attributes and blocks are errors; HCL suggests what was meant.
func (s settings) read(body hcl.Body, blocks ...hcl.BlockHeaderSchema) (*hcl.BodyContent, hcl.Diagnostics) {
	schema := &hcl.BodySchema{Blocks: blocks}
	for i := range s {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: s[i].name})
	}
	content, diags := body.Content(schema)
	for _, d := range diags {
		if d.Summary == "Unsupported argument" && !strings.Contains(d.Detail, "Did you mean") {
			d.Detail += fmt.Sprintf(" The arguments here are %s.", strings.Join(s.names(), ", "))
		}
	}
	for i := range s {
		if a := content.Attributes[s[i].name]; a != nil {
			diags = append(diags, s[i].read(a)...)
		}
	}
	return content, diags
}

// names returns the names of the settings that may be written, in alphabetical
// order.
func (s settings) names() []string {
	var out []string
	for i := range s {
		if s[i].doc != "" {
			out = append(out, s[i].name)
		}
	}
	slices.Sort(out)
	return out
}

func wrong(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

func wrongValue(a *hcl.Attribute, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{wrong(a.Range, "Wrong value for "+a.Name, fmt.Sprintf(format, args...))}
}
