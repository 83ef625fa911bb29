// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// setting takes one attribute's value over, or says what is wrong with it.
type setting func(*hcl.Attribute) hcl.Diagnostics

// settings are a block's attributes by name.
type settings map[string]setting

// read applies the settings to a body that may hold the given blocks.
// Unknown attributes and blocks are errors; HCL suggests what was meant.
func (s settings) read(body hcl.Body, blocks ...hcl.BlockHeaderSchema) (*hcl.BodyContent, hcl.Diagnostics) {
	schema := &hcl.BodySchema{Blocks: blocks}
	for name := range s {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	slices.SortFunc(schema.Attributes, func(a, b hcl.AttributeSchema) int { return strings.Compare(a.Name, b.Name) })
	content, diags := body.Content(schema)
	for _, d := range diags {
		if d.Summary == "Unsupported argument" && !strings.Contains(d.Detail, "Did you mean") {
			d.Detail += fmt.Sprintf(" The arguments here are %s.", names(schema))
		}
	}
	for _, a := range schema.Attributes {
		if attr := content.Attributes[a.Name]; attr != nil {
			diags = append(diags, s[a.Name](attr)...)
		}
	}
	return content, diags
}

func names(schema *hcl.BodySchema) string {
	var out []string
	for _, a := range schema.Attributes {
		out = append(out, a.Name)
	}
	return strings.Join(out, ", ")
}

func wrong(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

func wrongValue(a *hcl.Attribute, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{wrong(a.Range, "Wrong value for "+a.Name, fmt.Sprintf(format, args...))}
}

// value evaluates an attribute to a known value of the wanted type. No
// conversion: port = "80" is more likely a mistake than a wish.
func value(a *hcl.Attribute, want cty.Type, example string) (cty.Value, hcl.Diagnostics) {
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		return v, diags
	}
	if v.IsNull() || !v.IsKnown() || v.Type() != want {
		return v, wrongValue(a, "A %s is expected; write %s = %s.", want.FriendlyName(), a.Name, example)
	}
	return v, nil
}

func text(to *string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		v, diags := value(a, cty.String, `"…"`)
		if diags.HasErrors() {
			return diags
		}
		if v.AsString() == "" {
			return wrongValue(a, "It is empty; write a value, or leave the line out.")
		}
		*to = v.AsString()
		return nil
	}
}

func oneOf(to *string, words ...string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		var s string
		if diags := text(&s)(a); diags.HasErrors() {
			return diags
		}
		if !slices.Contains(words, s) {
			return wrongValue(a, "%q is not known; write one of %s.", s, strings.Join(words, ", "))
		}
		*to = s
		return nil
	}
}

// file is a path that must exist.
func file(to *string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		if diags := text(to)(a); diags.HasErrors() {
			return diags
		}
		if _, err := os.Stat(*to); err != nil {
			return wrongValue(a, "%v; write the path of a file that is there.", err)
		}
		return nil
	}
}

// address is an address of this machine to listen at.
func address(to *string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		var s string
		if diags := text(&s)(a); diags.HasErrors() {
			return diags
		}
		if net.ParseIP(s) == nil && s != "localhost" {
			return wrongValue(a, "%q is not an IP address; write one of this machine, such as 127.0.0.1 or 0.0.0.0, without a port.", s)
		}
		*to = s
		return nil
	}
}

// origin is the URL of an API, without a path.
func origin(to *string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		var s string
		if diags := text(&s)(a); diags.HasErrors() {
			return diags
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return wrongValue(a, `%q is not the URL of an API; write one such as "http://10.0.0.1:8648".`, s)
		}
		*to = u.Scheme + "://" + u.Host
		return nil
	}
}

func truth(to *bool) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		v, diags := value(a, cty.Bool, "true")
		if diags.HasErrors() {
			return diags
		}
		*to = v.True()
		return nil
	}
}

func whole(to *int, low, high float64) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		v, diags := value(a, cty.Number, fmt.Sprint(max(low, 1)))
		if diags.HasErrors() {
			return diags
		}
		f, _ := v.AsBigFloat().Float64()
		if f != math.Trunc(f) || f < low || f > high {
			return wrongValue(a, "%v is not a whole number from %v to %v.", f, low, high)
		}
		*to = int(f)
		return nil
	}
}

func duration(to *time.Duration, low, high string) setting {
	least, most := mustDuration(low), mustDuration(high)
	return func(a *hcl.Attribute) hcl.Diagnostics {
		v, diags := value(a, cty.String, `"30s"`)
		if diags.HasErrors() {
			return diags
		}
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return wrongValue(a, `%q is not a duration; write a number with its unit, such as "500ms", "30s" or "5m".`, v.AsString())
		}
		if d < least || d > most {
			return wrongValue(a, "%s is outside %s to %s.", d, low, high)
		}
		*to = d
		return nil
	}
}

// mustDuration reads a constant of this package.
func mustDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}
