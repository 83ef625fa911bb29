// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package expand

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
)

// Job returns a jobspec in which each group with a kolo block is replaced by one
// group per value of a level. Errors name file and line.
func Job(name string, src []byte, level topology.Level) ([]byte, error) {
	if level.Target() == "" {
		return nil, fmt.Errorf("a group cannot be bound to a value of %s: it is inside a node, where Nomad picks the devices; write a level of nodes, such as meta.rack", level.Name)
	}
	if err := nesting.File(name, src); err != nil {
		return nil, err
	}
	f, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("reading the job: %w", diags)
	}
	j := &job{text: text{name: name, src: src}, level: level}
	if err := j.find(f.Body.(*hclsyntax.Body)); err != nil {
		return nil, err
	}
	for _, g := range j.groups {
		j.zero(g)
		j.wrap(g)
	}
	j.bounds()
	j.declare()
	out := j.edited()
	if _, diags := hclsyntax.ParseConfig(out, name, hcl.InitialPos); diags.HasErrors() {
		return nil, fmt.Errorf("%s: the expanded job is not valid HCL, which is a bug in kolo; write the groups by hand, as docs/explanation/topology.md shows: %w", name, diags)
	}
	return out, nil
}

// job is a jobspec that is being expanded.
type job struct {
	text
	level    topology.Level
	groups   []*group
	declared bool // the variable exists
}

// group is one elastic group.
type group struct {
	block         *hclsyntax.Block
	scaling, kolo *hclsyntax.Block
	count         *hclsyntax.Attribute // nil is none
	min, max      *hclsyntax.Attribute // attributes of scaling
	label         string
	indent        string // of the line on which the block begins
}

// find collects the elastic groups of the file's job.
func (j *job) find(file *hclsyntax.Body) error {
	var jobs []*hclsyntax.Block
	for _, b := range file.Blocks {
		switch {
		case b.Type == "job":
			jobs = append(jobs, b)
		case b.Type == "variable" && len(b.Labels) == 1 && b.Labels[0] == Variable(j.level):
			j.declared = true
		case b.Type == "variables":
			_, set := b.Body.Attributes[Variable(j.level)]
			j.declared = j.declared || set
		}
	}
	if len(jobs) != 1 {
		return fmt.Errorf("%s: %d job blocks, and a jobspec has one", j.name, len(jobs))
	}
	for _, b := range jobs[0].Body.Blocks {
		if b.Type == "dynamic" && len(b.Labels) == 1 && b.Labels[0] == "group" {
			return j.wrong(b.DefRange(), "a dynamic group is there already; a job is expanded once, and later needs only its list: kolo topology vars -level %s", j.level.Name)
		}
		if b.Type != "group" {
			continue
		}
		g, err := j.group(b)
		if err != nil {
			return err
		}
		if g != nil {
			j.groups = append(j.groups, g)
		}
	}
	if len(j.groups) == 0 {
		return j.wrong(jobs[0].DefRange(), "no group has scaling { policy { kolo {} } }, and only elastic groups are expanded")
	}
	return nil
}

// group reads a group. It returns nil if the group is not elastic.
func (j *job) group(b *hclsyntax.Block) (*group, error) {
	g := &group{block: b, scaling: only(b.Body, "scaling"), count: b.Body.Attributes["count"]}
	if g.scaling == nil {
		return nil, nil //nolint:nilnil // the caller asks for nil
	}
	policy := only(g.scaling.Body, "policy")
	if policy == nil {
		return nil, nil //nolint:nilnil // the caller asks for nil
	}
	if a := policy.Body.Attributes[jobspec.Key]; a != nil {
		return nil, j.wrong(a.SrcRange, "%s is not a block; write %s { … }", jobspec.Key, jobspec.Key)
	}
	if g.kolo = only(policy.Body, jobspec.Key); g.kolo == nil {
		return nil, nil //nolint:nilnil // the caller asks for nil
	}
	if a := g.kolo.Body.Attributes["gang"]; a != nil {
		return nil, j.wrong(a.SrcRange, "the groups of a gang are placed by their ratio, not by topology, and are not expanded")
	}
	g.min, g.max = g.scaling.Body.Attributes["min"], g.scaling.Body.Attributes["max"]
	if len(b.Labels) != 1 {
		return nil, j.wrong(b.DefRange(), "a group has one name")
	}
	g.label = b.Labels[0]
	for _, one := range []*hclsyntax.Block{b, g.scaling, g.kolo} {
		if one.OpenBraceRange.Start.Line == one.CloseBraceRange.Start.Line && one != g.kolo {
			return nil, j.wrong(one.DefRange(), "the %s block is written on one line; write it over several", one.Type)
		}
	}
	for _, c := range b.Body.Blocks {
		if a := c.Body.Attributes["attribute"]; c.Type == "constraint" && a != nil && strings.Contains(j.of(a.Expr.Range()), j.level.Target()) {
			return nil, j.wrong(c.DefRange(), "group %q is bound to a value of %s already; remove the constraint", g.label, j.level.Name)
		}
	}
	g.indent = j.indentOf(b.TypeRange)
	return g, nil
}

// only returns the first block of a type in a body.
func only(body *hclsyntax.Body, kind string) *hclsyntax.Block {
	for _, b := range body.Blocks {
		if b.Type == kind {
			return b
		}
	}
	return nil
}

// zero makes a group start with no workers, and allows it to have none.
func (j *job) zero(g *group) {
	if g.count != nil && !isNumber(g.count, 0) {
		j.replace(g.count.Expr.Range(), "0")
	}
	switch {
	case g.min == nil:
		j.insert(g.scaling.OpenBraceRange.End.Byte, "\n"+j.inside(g.scaling)+"min = 0")
	case !isNumber(g.min, 0):
		j.replace(g.min.Expr.Range(), "0")
	}
}

// wrap turns a group into the content of a dynamic block, bound to its value.
func (j *job) wrap(g *group) {
	in := g.indent + "  "
	element, iterator := g.element(), ""
	if element != "group" {
		iterator = fmt.Sprintf("\n%siterator = %s", in, element)
	}
	label := fmt.Sprintf(`%s-${%s.value}"`, strings.TrimSuffix(quoted(g.label), `"`), element)
	head := hcl.Range{Start: g.block.TypeRange.Start, End: g.block.OpenBraceRange.End}
	j.replace(head, fmt.Sprintf("dynamic \"group\" {\n%sfor_each = var.%s%s\n%slabels   = [%s]\n\n%scontent {", in, Variable(j.level), iterator, in, label, in))
	end := g.block.CloseBraceRange
	j.insert(j.lineOf(end), fmt.Sprintf("\n%s  constraint {\n%s    attribute = %q\n%s    value     = %s.value\n%s  }\n", in, in, j.level.Target(), in, element, in))
	j.indent(g.block.OpenBraceRange.End.Byte, end.Start.Byte, "  ")
	j.insert(end.End.Byte, "\n"+g.indent+"}")
}

// element returns a name for the values of the variable in a group. It is "group",
// the name of the block, as readers expect, unless the group uses that name for
// something else. (HCL leaves unknown names in a job's texts as they are.)
func (g *group) element() string {
	used := map[string]bool{}
	_ = hclsyntax.VisitAll(g.block.Body, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			used[e.Traversal.RootName()] = true
		}
		return nil
	})
	element := "group"
	for i := 1; used[element]; i++ {
		element = fmt.Sprintf("domain%d", i)
	}
	return element
}

// bounds keeps the job's bounds by moving them into the kolo block of its first
// group, because the bounds in scaling now apply to each group.
func (j *job) bounds() {
	least, most := j.sum(func(g *group) *hclsyntax.Attribute { return g.least() }), j.sum(func(g *group) *hclsyntax.Attribute { return g.max })
	var lines []string
	for _, b := range []struct{ key, value string }{{"min", least}, {"max", most}} {
		if b.value != "" && !j.states(b.key) && (b.key != "min" || b.value != "0" && b.value != "1") {
			lines = append(lines, b.key+" = "+b.value)
		}
	}
	if len(lines) == 0 {
		return
	}
	first := j.groups[0].kolo
	in := j.inside(first)
	text := "\n" + in + strings.Join(lines, "\n"+in)
	if first.OpenBraceRange.Start.Line == first.CloseBraceRange.Start.Line { // kolo {} or kolo { queue = "a" }
		rest := strings.TrimSpace(j.of(hcl.Range{Start: first.OpenBraceRange.End, End: first.CloseBraceRange.Start}))
		if rest != "" {
			rest = "\n" + in + rest
		}
		j.replace(hcl.Range{Start: first.OpenBraceRange.End, End: first.CloseBraceRange.Start}, text+rest+"\n"+j.indentOf(first.TypeRange)+"  ")
		return
	}
	j.insert(first.OpenBraceRange.End.Byte, text)
}

// least returns the smallest count of a group by Nomad's rule: scaling.min, or the
// count if that is missing.
func (g *group) least() *hclsyntax.Attribute {
	if g.min != nil {
		return g.min
	}
	return g.count
}

// states reports whether any kolo block of the job has a key.
func (j *job) states(key string) bool {
	for _, g := range j.groups {
		if g.kolo.Body.Attributes[key] != nil {
			return true
		}
	}
	return false
}

// sum returns the sum of an attribute over the groups as an expression, or "" if no
// group has it.
func (j *job) sum(of func(*group) *hclsyntax.Attribute) string {
	n, terms := 0, []string(nil)
	for _, g := range j.groups {
		a := of(g)
		if a == nil {
			continue
		}
		if k, ok := number(a); ok {
			n += k
			terms = append(terms, "")
			continue
		}
		terms = append(terms, j.of(a.Expr.Range()))
	}
	if len(terms) == 0 {
		return ""
	}
	var out []string
	for _, t := range terms {
		if t != "" && len(j.groups) > 1 {
			t = "(" + t + ")"
		}
		if t != "" {
			out = append(out, t)
		}
	}
	if n > 0 || len(out) == 0 {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, " + ")
}

// declare adds the variable, unless the file already has it.
func (j *job) declare() {
	if j.declared {
		return
	}
	newline := "\n"
	if len(j.src) > 0 && j.src[len(j.src)-1] != '\n' {
		newline = "\n\n"
	}
	j.insert(len(j.src), fmt.Sprintf(`%svariable %q {
  type        = list(string)
  description = "Values of %s, one group of workers each: kolo topology vars -level %s"
}
`, newline, Variable(j.level), j.level.Name, j.level.Name))
}

// isNumber reports whether an attribute is the literal number n.
func isNumber(a *hclsyntax.Attribute, n int) bool {
	k, ok := number(a)
	return ok && k == n
}

func number(a *hclsyntax.Attribute) (int, bool) {
	lit, ok := a.Expr.(*hclsyntax.LiteralValueExpr)
	if !ok || lit.Val.Type() != cty.Number || lit.Val.IsNull() || !lit.Val.AsBigFloat().IsInt() {
		return 0, false
	}
	n, exact := lit.Val.AsBigFloat().Int64()
	return int(n), exact == big.Exact
}
