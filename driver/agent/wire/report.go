// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/json"
	"regexp"
)

// number is a JSON number, or nil for any other value.
type number struct{ v *float64 }

// UnmarshalJSON never fails, so that one bad field does not spoil a line.
func (n *number) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &n.v) != nil {
		n.v = nil
	}
	return nil
}

// word is a JSON string, "" for null, or nil for any other value or none.
type word struct{ v *string }

// UnmarshalJSON never fails, like that of number.
func (w *word) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		w.v = new(string)
	} else if json.Unmarshal(b, &w.v) != nil {
		w.v = nil
	}
	return nil
}

// adaptive is a JSON object that is a valid Adaptive, or nil for any other value.
type adaptive struct{ v *Adaptive }

// UnmarshalJSON never fails, like that of number.
func (a *adaptive) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &a.v) != nil || a.v != nil && !a.v.valid() {
		a.v = nil
	}
	return nil
}

// lasts is a JSON list of pairs [rank, seconds], or nil for any other value.
type lasts struct{ v []Last }

// UnmarshalJSON never fails, like that of number.
func (l *lasts) UnmarshalJSON(b []byte) error {
	var pairs [][2]float64
	if json.Unmarshal(b, &pairs) != nil {
		pairs = nil
	}
	for _, pair := range pairs[max(0, len(pairs)-MaxLast):] {
		if rank := int(pair[0]); float64(rank) == pair[0] {
			l.v = append(l.v, Last{rank, pair[1]})
		}
	}
	return nil
}

// notNumbers matches values that Python's json writes for a diverged loss and that are not
// valid JSON. It may match inside strings, too.
var notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)

// ValidJSON returns a line from Python's json with NaN and infinities replaced by null.
func ValidJSON(line []byte) []byte { return notNumbers.ReplaceAllLiteral(line, []byte("null")) }

// ParseProgress returns the progress in a line of JSON, and whether there is any.
func ParseProgress(line []byte) (Progress, bool) {
	var v struct {
		Step, Samples, Epoch, Loss number
		TotalSteps                 number `json:"total_steps"`
		Slow                       word
		Last                       lasts
		Adaptive                   adaptive
	}
	if json.Unmarshal(ValidJSON(line), &v) != nil {
		return Progress{}, false
	}
	p := Progress{Step: v.Step.v, Samples: v.Samples.v, Epoch: v.Epoch.v, TotalSteps: v.TotalSteps.v, Loss: v.Loss.v, Adaptive: v.Adaptive.v, Slow: v.Slow.v}
	p.AddLast(v.Last.v)
	return p, p.Counts() || p.Slow != nil
}
