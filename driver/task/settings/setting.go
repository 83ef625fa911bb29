// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// Kind is the type of a setting in a jobspec.
type Kind int

// The kinds of settings. Durations and choices are Text.
const (
	Text Kind = iota
	Number
	Bool
	List
)

// Setting is one setting, bound to the variable that it fills. It is a
// flag.Value.
type Setting struct {
	Name string
	Kind Kind
	// Default is the default as documentation shows it: a value with its unit, or a word.
	Default string
	// Doc is one sentence, without its full stop.
	Doc string

	set func(value any) error
}

// Set parses and checks a value. Its error states what is wrong with the value, and may be
// a problem.Problem with an empty Field.
func (s Setting) Set(text string) error { return s.set(text) }

// String returns the default, as package flag expects.
func (s Setting) String() string { return s.Default }

// shown replaces the displayed default by a word, if the actual value has no meaning of its
// own.
func (s Setting) shown(as string) Setting {
	s.Default = as
	return s
}

// Func declares a setting whose value take parses and checks.
func Func(name string, kind Kind, byDefault, doc string, take func(text string) error) Setting {
	return Setting{Name: name, Kind: kind, Default: byDefault, Doc: doc, set: func(value any) error {
		return take(textOf(value))
	}}
}

// Word declares a setting that may be any text.
func Word(p *string, name, byDefault, doc string) Setting {
	return Func(name, Text, byDefault, doc, func(text string) error {
		*p = text
		return nil
	})
}

// Words declares a list of texts.
func Words(p *[]string, name, doc string) Setting {
	return Setting{Name: name, Kind: List, Default: "none", Doc: doc, set: func(value any) error {
		list, ok := value.([]any)
		if !ok {
			return errors.New("must be a list")
		}
		*p = make([]string, 0, len(list)) // an empty list is not nil
		for i, v := range list {
			if v == nil {
				return problem.Problem{Text: fmt.Sprintf("entry %d is null", i+1), Remedy: "leave it out"}
			}
			*p = append(*p, textOf(v))
		}
		return nil
	}}
}

// OneOf declares a setting that must be one of choices. It sets p to the first of them,
// which is the default.
func OneOf(p *string, name string, choices []string, doc string) Setting {
	*p = choices[0]
	return Func(name, Text, choices[0], doc, func(text string) error {
		if !slices.Contains(choices, text) {
			return fmt.Errorf(`must be "%s"`, strings.Join(choices, `" or "`))
		}
		*p = text
		return nil
	})
}

// Count declares a whole number not below least, and sets p to its default.
func Count(p *int, name string, byDefault, least int, doc string) Setting {
	*p = byDefault
	return Func(name, Number, strconv.Itoa(byDefault), doc, func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32:
			return errors.New("must be a whole number")
		case int(n) < least:
			return fmt.Errorf("must be at least %d", least)
		}
		*p = int(n)
		return nil
	})
}

// Time declares a duration not below least, and sets p to its default.
func Time(p *time.Duration, name string, byDefault, least time.Duration, doc string) Setting {
	*p = byDefault
	return Func(name, Text, short(byDefault), doc, func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return problem.Problem{Text: "not a duration", Remedy: `write it like "90s" or "10m"`}
		case d < least:
			return fmt.Errorf("must be at least %s", short(least))
		}
		*p = d
		return nil
	})
}

// Undefined returns the flag at which set.Parse(args) failed with err, and whether it
// failed because that flag is not defined. It needs args because package flag has already
// removed the flag from the remaining arguments.
func Undefined(set *flag.FlagSet, args []string, err error) (name string, undefined bool) {
	arg := args[max(len(args)-set.NArg()-1, 0)]
	name, _, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name, strings.HasPrefix(arg, "-") && set.Lookup(name) == nil && !errors.Is(err, flag.ErrHelp)
}

// short formats a duration as people write it: 10m rather than 10m0s.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// textOf formats a value of a jobspec as a user would write it.
func textOf(value any) string {
	if f, ok := value.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
