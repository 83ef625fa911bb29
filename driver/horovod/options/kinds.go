// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/settings"
)

// number binds a variable to a number that is not negative; write turns it into
// the variable's value.
func (e Env) number(name, variable, doc string, write func(float64) (string, error)) settings.Setting {
	return settings.Func(name, settings.Number, "", doc, func(text string) error {
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

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// amount is any number.
func (e Env) amount(name, variable, doc string) settings.Setting {
	return e.number(name, variable, doc, func(v float64) (string, error) { return decimal(v), nil })
}

// count is a whole number.
func (e Env) count(name, variable, doc string) settings.Setting {
	return e.number(name, variable, doc, func(v float64) (string, error) {
		if v != math.Trunc(v) {
			return "", errors.New("must be a whole number")
		}
		return decimal(v), nil
	})
}

// fraction is at most 1.
func (e Env) fraction(name, variable, doc string) settings.Setting {
	return e.number(name, variable, doc, func(v float64) (string, error) {
		if v > 1 {
			return "", errors.New("must be between 0 and 1")
		}
		return decimal(v), nil
	})
}

// megabytes is a size that Horovod reads in bytes; a fraction of a MiB may still
// be whole bytes.
func (e Env) megabytes(name, variable, doc string) settings.Setting {
	return e.number(name, variable, doc, func(v float64) (string, error) { return decimal(math.Trunc(v * (1 << 20))), nil })
}

// flag is true or false, as 1 or 0.
func (e Env) flag(name, variable, doc string) settings.Setting {
	return e.boolean(name, variable, doc, "1", "0")
}

// inverse is a flag whose variable has the opposite meaning.
func (e Env) inverse(name, variable, doc string) settings.Setting {
	return e.boolean(name, variable, doc, "0", "1")
}

func (e Env) boolean(name, variable, doc, yes, no string) settings.Setting {
	return settings.Func(name, settings.Bool, "", doc, func(text string) error {
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

// word is any text.
func (e Env) word(name, variable, doc string) settings.Setting {
	return settings.Func(name, settings.Text, "", doc, func(text string) error {
		e[variable] = text
		return nil
	})
}

// levels are those Horovod knows; it takes any case.
var levels = []string{"trace", "debug", "info", "warning", "error", "fatal"}

// level is one of levels.
func (e Env) level(name, variable, doc string) settings.Setting {
	return settings.Func(name, settings.Text, "", doc, func(text string) error {
		if !slices.Contains(levels, strings.ToLower(text)) {
			return fmt.Errorf("must be one of %s", strings.Join(levels, ", "))
		}
		e[variable] = strings.ToLower(text)
		return nil
	})
}
