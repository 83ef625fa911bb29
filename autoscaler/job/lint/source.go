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

// source holds the positions of the blocks and arguments of a job.
type source struct{ job *hclsyntax.Block }

// step is one level of the path to a block or an argument: a block's type with its
// label, or an argument's name. nth counts blocks of the same type and label.
type step struct {
	name, label string
	nth         int
}

// stepsOf returns the steps to a problem's field, such as group "workers":
// scaling.policy.kolo.sizes[1]. It omits the index.
func stepsOf(field string) (steps []step) {
	for field != "" {
		end := strings.IndexAny(field+".", ". [:")
		st, rest := step{name: field[:end]}, field[end:]
		if strings.HasPrefix(rest, ` "`) {
			label, _ := strconv.QuotedPrefix(rest[1:]) // empty if the closing quote is missing
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

// at returns the position that the steps lead to. It skips steps that lead nowhere: a
// missing argument is reported at the block that lacks it, and some blocks are optional
// in Nomad.
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

// argument returns the expression that the steps lead to, or nil if there is none.
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

// element returns the position of the element that begins with the given text, in the
// list that the steps lead to. If there is none, it returns the position of the list.
func (s *source) element(begins string, steps ...step) hcl.Range {
	at, expr := s.at(steps...), s.argument(steps...)
	if expr == nil {
		return at
	}
	found := false
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics { // the visitor never returns diagnostics
		if t, ok := node.(*hclsyntax.TemplateExpr); ok && !found && strings.HasPrefix(lead(t), begins) {
			at, found = t.Range(), true
		}
		return nil
	})
	return at
}

// lead returns the text of a template before its first interpolation.
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

// find returns the block that a step names in a body, even if it is a dynamic block.
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
