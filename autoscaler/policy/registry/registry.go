// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Info describes a policy to users.
type Info struct {
	Name    string
	Doc     string // what it does, one or two sentences
	Source  string // paper or system it comes from
	Needs   string // information it uses, and its fallback without it
	Trusts  Trust  // which claims of a job it believes
	Options []Option
}

// Trust states which reports of a job a policy trusts. A false report that is
// trusted may give a job more than an honest job with perfect scaling would get. No
// policy trusts a curve beyond perfect scaling (speedup.Curve.Sublinear).
type Trust int

// The levels of trust; each includes the one before.
const (
	Nothing Trust = iota
	Lengths       // how much work is done and left, in seconds on one worker
	Times         // also that the job is slow or scales badly, which makes it count as long
)

// String returns the name of the trust level.
func (t Trust) String() string { return [...]string{"nothing", "lengths", "lengths and step times"}[t] }

// MarshalText implements encoding.TextMarshaler.
func (t Trust) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Option is one setting of a policy.
type Option struct {
	Name    string
	Type    string // bool, int, float, string, list of float, map of float
	Default string // as written in HCL
	Doc     string
}

// Entry is a policy that can be created by name.
type Entry struct {
	info  Info
	build func(body hcl.Body) (policy.Policy, hcl.Diagnostics)
}

// Checker is an interface for a policy's options. Options implement it if their
// values must keep to rules that the types do not express.
type Checker interface {
	// Check returns the first option with a bad value and the problem; "" if all
	// are good.
	Check() (option, problem string)
}

// optioned is a policy with its options.
type optioned[O any] struct {
	name     string
	options  O
	allocate func(O, *policy.Snapshot) policy.Decision
}

// Name implements policy.Policy.
func (p *optioned[O]) Name() string { return p.name }

// Allocate implements policy.Policy.
func (p *optioned[O]) Allocate(s *policy.Snapshot) policy.Decision {
	return policy.Interruptible(s, func(s *policy.Snapshot) policy.Decision { return p.allocate(p.options, s) })
}

// Define returns an entry. The options are a struct with hcl and doc tags; defaults
// holds its default values. allocate receives the options that apply.
func Define[O any](info Info, defaults O, allocate func(O, *policy.Snapshot) policy.Decision) Entry {
	info.Options = describe(defaults)
	return Entry{info: info, build: func(body hcl.Body) (policy.Policy, hcl.Diagnostics) {
		options := defaults
		if diags := gohcl.DecodeBody(body, nil, &options); diags.HasErrors() {
			return nil, diags
		}
		if c, ok := any(options).(Checker); ok {
			if name, problem := c.Check(); name != "" {
				return nil, hcl.Diagnostics{{
					Severity: hcl.DiagError,
					Summary:  "Invalid option " + name,
					Detail:   fmt.Sprintf("Policy %s: %s %s.", info.Name, name, problem),
					Subject:  attributeRange(body, name),
				}}
			}
		}
		return &optioned[O]{info.Name, options, allocate}, nil
	}}
}

func attributeRange(body hcl.Body, name string) *hcl.Range {
	attrs, _ := body.JustAttributes()
	if a, ok := attrs[name]; ok {
		return &a.Range
	}
	r := body.MissingItemRange()
	return &r
}

// describe lists the options of a struct with its values as defaults.
func describe(defaults any) []Option {
	v := reflect.ValueOf(defaults)
	var options []Option
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		if name == "" {
			continue
		}
		o := Option{Name: name, Doc: f.Tag.Get("doc")}
		switch x := v.Field(i).Interface().(type) {
		case bool:
			o.Type, o.Default = "bool", strconv.FormatBool(x)
		case int:
			o.Type, o.Default = "int", strconv.Itoa(x)
		case float64:
			o.Type, o.Default = "float", fmt.Sprintf("%g", x)
		case string:
			o.Type, o.Default = "string", fmt.Sprintf("%q", x)
		case []float64:
			o.Type, o.Default = "list of float", strings.ReplaceAll(fmt.Sprint(x), " ", ", ")
		case map[string]float64:
			o.Type, o.Default = "map of float", "{}"
		default:
			panic("policy: option of unknown type " + f.Type.String())
		}
		options = append(options, o)
	}
	return options
}

// List is a set of policies that can be created by name.
type List []Entry

// Names returns the names of all policies in alphabetical order.
func (l List) Names() []string {
	names := make([]string, len(l))
	for i, e := range l {
		names[i] = e.info.Name
	}
	slices.Sort(names)
	return names
}

// Describe returns the description of a policy for users.
func (l List) Describe(name string) (Info, bool) {
	if e, ok := l.find(name); ok {
		return e.info, true
	}
	return Info{}, false
}

func (l List) find(name string) (Entry, bool) {
	i := slices.IndexFunc(l, func(e Entry) bool { return e.info.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return l[i], true
}

// New creates the named policy with options from body; a nil body means the
// defaults. If the fault lies in body, the error is an hcl.Diagnostics that names
// file and line.
func (l List) New(name string, body hcl.Body) (policy.Policy, error) {
	e, ok := l.find(name)
	if !ok {
		return nil, fmt.Errorf("no policy is called %q; there are %s", name, strings.Join(l.Names(), ", "))
	}
	if body == nil {
		body = hcl.EmptyBody()
	}
	p, diags := e.build(body)
	if diags.HasErrors() {
		return nil, diags
	}
	return p, nil
}
