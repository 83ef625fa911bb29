// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// source is where the blocks and arguments of a job stand.
type source struct{ job *hclsyntax.Block }

// step is one level of the way to a block or an argument: a block's type with its label,
// or an argument's name. nth counts blocks of the same type and label.
type step struct {
	name, label string
	nth         int
}

// stepsOf are the steps to a problem's field, such as
// group "workers": scaling.policy.kolo.sizes[1]. The index is left out.
func stepsOf(field string) (steps []step) {
	for field != "" {
		end := strings.IndexAny(field+".", ". [:")
		st, rest := step{name: field[:end]}, field[end:]
		if strings.HasPrefix(rest, ` "`) {
			label, _ := strconv.QuotedPrefix(rest[1:]) // empty where the quote has no end
			st.label, _ = strconv.Unquote(label)
			rest = rest[1+len(label):]
		}
		steps = append(steps, st)
		field = strings.TrimLeft(rest, ".: [0123456789]")
	}
	return steps
}

func parseSource(path string, text []byte) (*source, error) {
	file, diags := hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, errors.New(printable.Text(short(diags.Error(), 2000)))
	}
	body, _ := file.Body.(*hclsyntax.Body) // by hclsyntax
	for _, b := range body.Blocks {
		if b.Type == "job" {
			return &source{b}, nil
		}
	}
	return nil, fmt.Errorf("%s: has no job block", path)
}

// at is where the steps lead. Where a step leads nowhere it is left out: what is
// missing is reported at the block that misses it, and Nomad lets some blocks be left
// out.
func (s *source) at(steps ...step) hcl.Range {
	at, body := s.job.DefRange(), s.job.Body
	for _, st := range steps {
		if b := find(body, st); b != nil {
			at, body = b.at, b.body
		} else if a := body.Attributes[st.name]; a != nil {
			return a.NameRange
		}
	}
	return at
}

// argument is the expression that the steps lead to, nil where there is none.
func (s *source) argument(steps ...step) hclsyntax.Expression {
	body := s.job.Body
	for _, st := range steps {
		if b := find(body, st); b != nil {
			body = b.body
		} else if a := body.Attributes[st.name]; a != nil {
			return a.Expr
		}
	}
	return nil
}

// element is where an element stands in the list that the steps lead to, by how it
// begins, else where the list does.
func (s *source) element(begins string, steps ...step) hcl.Range {
	at, expr := s.at(steps...), s.argument(steps...)
	if expr == nil {
		return at
	}
	found := false
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics { // which only passes on what the function returns
		if t, ok := node.(*hclsyntax.TemplateExpr); ok && !found && strings.HasPrefix(lead(t), begins) {
			at, found = t.Range(), true
		}
		return nil
	})
	return at
}

// lead is the text of a template before its first interpolation.
func lead(t *hclsyntax.TemplateExpr) string {
	if len(t.Parts) == 0 {
		return ""
	}
	first, ok := t.Parts[0].(*hclsyntax.LiteralValueExpr)
	if !ok || first.Val.Type() != cty.String {
		return ""
	}
	return first.Val.AsString()
}

type place struct {
	at   hcl.Range
	body *hclsyntax.Body
}

// find is the block that a step names in a body, also where it is dynamic.
func find(body *hclsyntax.Body, st step) *place {
	nth := st.nth
	for _, b := range body.Blocks {
		if b.Type != st.name || st.label != "" && (len(b.Labels) == 0 || b.Labels[0] != st.label) {
			continue
		}
		if nth == 0 {
			return &place{b.DefRange(), b.Body}
		}
		nth--
	}
	for _, b := range body.Blocks {
		if b.Type != "dynamic" || len(b.Labels) == 0 || b.Labels[0] != st.name {
			continue
		}
		if content := find(b.Body, step{name: "content"}); content != nil {
			return &place{b.DefRange(), content.body}
		}
	}
	return nil
}
