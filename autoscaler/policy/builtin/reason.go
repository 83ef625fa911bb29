// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// settle writes the counts of all pools into the decision, each with its reason.
func settle(d *policy.Decision, pools []*pool) {
	for _, p := range pools {
		for _, c := range p.jobs {
			a := &d.Allocations[c.place]
			a.Count = c.n
			a.Reason, a.Repeats = reason(c.Count, c.n, c.why), c.repeats
			if c.n == 0 {
				a.Wait = cmp.Or(c.wait, waiting.InQueue)
			}
		}
	}
}

// waits is the reason that most waiting jobs have.
const waits = "waits for free GPUs"

// reason states the change and its reason. It does not allocate for a job that
// stays as it is.
func reason(from, to int, why string) string {
	var b []byte
	switch {
	case from == to:
		if why != "" {
			return why
		}
		if to == 0 {
			return waits
		}
		return "keeps its size"
	case from == 0:
		b = make([]byte, 0, 24+len(why))
		b = strconv.AppendInt(append(b, "starts with "...), int64(to), 10)
	case to == 0:
		b = make([]byte, 0, 24+len(why))
		b = strconv.AppendInt(append(b, "suspended from "...), int64(from), 10)
	default:
		b = make([]byte, 0, 40+len(why))
		if to > from {
			b = append(b, "grows "...)
		} else {
			b = append(b, "shrinks "...)
		}
		b = strconv.AppendInt(b, int64(from), 10)
		b = strconv.AppendInt(append(b, "→"...), int64(to), 10)
	}
	if why != "" {
		b = append(append(b, ": "...), why...)
	}
	return string(b)
}
