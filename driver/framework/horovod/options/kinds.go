// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"errors"
	"math"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// amount is any number.
func amount(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) { return settings.Decimal(v), nil })
}

// fraction is at most 1.
func fraction(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) {
		if v > 1 {
			return "", errors.New("must be between 0 and 1")
		}
		return settings.Decimal(v), nil
	})
}

// megabytes is a size that Horovod reads in bytes; a fraction of a MiB may still
// be whole bytes.
func megabytes(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) { return settings.Decimal(math.Trunc(v * (1 << 20))), nil })
}

// levels are those that Horovod logs at.
var levels = []string{"trace", "debug", "info", "warning", "error", "fatal"}
