// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env holds the environment variables that a training framework reads. The settings bound
// to them fill them in.
type Env map[string]string

// Number declares a setting that is a number of at least 0, bound to a variable. write
// formats the number as the variable's value.
func (e Env) Number(name, variable, doc string, write func(float64) (string, error)) Setting {
	return Func(name, Number, "", doc, func(text string) error {
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return errors.New("must be a number")
		case v < 0:
			return errors.New("must not be negative")
		}
		text, err = write(v)
		if err == nil {
			e[variable] = text
		}
		return err
	})
}

// Decimal formats a number without an exponent.
func Decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Count declares a whole number.
func (e Env) Count(name, variable, doc string) Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) {
		if v != math.Trunc(v) {
			return "", errors.New("must be a whole number")
		}
		return Decimal(v), nil
	})
}

// Flag declares a boolean, which is 1 or 0 in the variable.
func (e Env) Flag(name, variable, doc string) Setting {
	return e.boolean(name, variable, doc, "1", "0")
}

// Inverse declares a boolean setting whose variable has the opposite meaning: true is 0 in
// the variable.
func (e Env) Inverse(name, variable, doc string) Setting {
	return e.boolean(name, variable, doc, "0", "1")
}

func (e Env) boolean(name, variable, doc, yes, no string) Setting {
	return Func(name, Bool, "", doc, func(text string) error {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		if e[variable] = no; v {
			e[variable] = yes
		}
		return nil
	})
}

// Word declares a setting that may be any text.
func (e Env) Word(name, variable, doc string) Setting {
	return Func(name, Text, "", doc, func(text string) error {
		e[variable] = text
		return nil
	})
}

// Match declares a text that has to match form. The text of must describes this rule in error
// messages, such as "must be a word".
func (e Env) Match(name, variable, doc string, form *regexp.Regexp, must string) Setting {
	return Func(name, Text, "", doc, func(text string) error {
		if !form.MatchString(text) {
			return errors.New(must)
		}
		e[variable] = text
		return nil
	})
}

// OneOf declares a setting that must be one of some words, in upper or lower case. write
// converts a word to the variable's value.
func (e Env) OneOf(name, variable, doc string, choices []string, write func(string) string) Setting {
	return Func(name, Text, "", doc, func(text string) error {
		if !slices.Contains(choices, strings.ToLower(text)) {
			return fmt.Errorf("must be one of %s", strings.Join(choices, ", "))
		}
		e[variable] = write(text)
		return nil
	})
}

// Seconds declares a duration of at least a second, in whole seconds. who is the program
// that accepts only whole seconds, for error messages.
func (e Env) Seconds(name, variable, byDefault, doc, who string) Setting {
	var d time.Duration
	s := Time(&d, name, 0, time.Second, doc)
	return Func(name, s.Kind, byDefault, doc, func(text string) error {
		if err := s.Set(text); err != nil {
			return err
		}
		if d%time.Second != 0 {
			return fmt.Errorf("must be whole seconds, as %s counts", who)
		}
		e[variable] = strconv.Itoa(int(d / time.Second))
		return nil
	})
}
