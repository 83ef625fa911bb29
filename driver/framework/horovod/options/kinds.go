// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"errors"
	"math"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// amount declares a setting that may be any number.
func amount(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) { return settings.Decimal(v), nil })
}

// fraction declares a setting of at most 1.
func fraction(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) {
		if v > 1 {
			return "", errors.New("must be between 0 and 1")
		}
		return settings.Decimal(v), nil
	})
}

// megabytes declares a size that Horovod reads in bytes. A fraction of a MiB may
// still be a whole number of bytes.
func megabytes(e settings.Env, name, variable, doc string) settings.Setting {
	return e.Number(name, variable, doc, func(v float64) (string, error) { return settings.Decimal(math.Trunc(v * (1 << 20))), nil })
}

// levels are Horovod's log levels.
var levels = []string{"trace", "debug", "info", "warning", "error", "fatal"}
