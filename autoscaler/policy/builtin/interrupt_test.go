// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"context"
	"testing"

	"github.com/shoenig/test/must"
)

// counting is a context that ends when it has been asked so many times.
type counting struct {
	context.Context
	asked, last int // last 0 is never
}

// Err implements context.Context.
func (c *counting) Err() error {
	if c.asked++; c.last > 0 && c.asked >= c.last {
		return context.Canceled
	}
	return nil
}

// TestPoliciesStop cancels a decision at its beginning or in the middle. The policy then
// does not start another unit of its work.
func TestPoliciesStop(t *testing.T) {
	const jobs = 5000
	for _, line := range append(Policies.Names(), "oasis(slots=64, slot=10)", `ffdl(method="dp")`, "kolo(explore=8)") {
		t.Run(line, func(t *testing.T) {
			p, err := Policies.Parse(line)
			must.NoError(t, err)
			s := crowd(jobs, 512)
			whole := &counting{Context: t.Context()}
			s.Context = whole
			must.Len(t, jobs, p.Allocate(s).Allocations)
			must.Greater(t, jobs, whole.asked, must.Sprint("check points in all of the work"))
			for _, last := range []int{1, jobs / 2, jobs + 1, whole.asked - 1} {
				ends := &counting{Context: t.Context(), last: last}
				s.Context = ends //nolint:fatcontext // of the test's, not of the one before
				must.SliceEmpty(t, p.Allocate(s).Allocations)
				must.Eq(t, last, ends.asked, must.Sprint("it went on"))
			}
		})
	}
}
