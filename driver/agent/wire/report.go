// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/json"
	"regexp"
)

// number is a JSON number, or nil where something else is.
type number struct{ v *float64 }

// UnmarshalJSON fails for nothing, so that one field does not spoil a line.
func (n *number) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &n.v) != nil {
		n.v = nil
	}
	return nil
}

// notNumbers are what Python's json writes of a loss that has diverged, and no
// JSON. Strings are not looked at, so they may be hit too.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// ValidJSON returns a line that Python has written, with null for what is no number.
func ValidJSON(line []byte) []byte { return notNumbers.ReplaceAllLiteral(line, []byte("null")) }

// ParseProgress returns what a line of JSON reports, and whether it reports anything.
func ParseProgress(line []byte) (Progress, bool) {
	var v struct {
		Step, Samples, Epoch, Loss number
		TotalSteps                 number `json:"total_steps"`
	}
	if json.Unmarshal(ValidJSON(line), &v) != nil {
		return Progress{}, false
	}
	p := Progress{Step: v.Step.v, Samples: v.Samples.v, Epoch: v.Epoch.v, TotalSteps: v.TotalSteps.v, Loss: v.Loss.v}
	return p, p != (Progress{})
}
