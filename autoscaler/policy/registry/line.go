// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
)

// CheckLine returns an error for a line that is too long or nested too deeply to be
// a policy. Anyone who may call the API can send a line, so this check comes before
// anything else.
func CheckLine(spec string) error {
	return nesting.Line("policy", []byte(spec))
}

// Parse creates a policy from one line as used on a command line: a name,
// optionally followed by options in parentheses, such as
//
//	tiresias(thresholds=[57600], starvation=0)
func (l List) Parse(spec string) (policy.Policy, error) {
	if err := CheckLine(spec); err != nil {
		return nil, err
	}
	name, rest, found := strings.Cut(strings.TrimSpace(spec), "(")
	if !found {
		return l.New(name, nil)
	}
	args, ok := strings.CutSuffix(rest, ")")
	if !ok {
		return nil, fmt.Errorf("policy %q: missing closing parenthesis", spec)
	}
	// The arguments are parsed as those of an HCL object, so that HCL's own parser
	// decides where each ends.
	expr, diags := hclsyntax.ParseExpression([]byte("{"+args+"}"), "policy "+name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	if diags = hclsyntax.VisitAll(expr, cheap); diags.HasErrors() {
		return nil, diags
	}
	object, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil, fmt.Errorf("policy %q: options must be written name=value, …", spec)
	}
	attrs := hclsyntax.Attributes{}
	for _, item := range object.Items {
		key := hcl.ExprAsKeyword(item.KeyExpr)
		if key == "" {
			return nil, fmt.Errorf("policy %q: an option's name must be a plain word", spec)
		}
		attrs[key] = &hclsyntax.Attribute{
			Name: key, Expr: item.ValueExpr, NameRange: item.KeyExpr.Range(),
			SrcRange: hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()),
		}
	}
	return l.New(name, &hclsyntax.Body{Attributes: attrs, SrcRange: object.SrcRange, EndRange: object.SrcRange})
}

// mostExponent bounds the power of two of a number in a line, up and down. It is
// the exponent of the largest float.
const mostExponent = 1100

// cheap rejects expressions whose value may cost far more than their text. These are
// HCL's for expressions, which multiply when nested, and numbers such as 1e600000000,
// which are written out in full where a string is expected.
func cheap(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.ForExpr:
		return hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Unsupported expression",
			Detail: "Options cannot contain for expressions; write the values themselves.", Subject: n.Range().Ptr(),
		}}
	case *hclsyntax.LiteralValueExpr:
		if n.Val.IsNull() || !n.Val.IsKnown() || n.Val.Type() != cty.Number {
			return nil
		}
		f := n.Val.AsBigFloat()
		if exponent := f.MantExp(nil); f.IsInf() || exponent > mostExponent || exponent < -mostExponent {
			return hcl.Diagnostics{{
				Severity: hcl.DiagError, Summary: "Number out of range",
				Detail: "A number is at most 1e308, and at least 1e-308 unless it is 0.", Subject: n.Range().Ptr(),
			}}
		}
	}
	return nil
}
