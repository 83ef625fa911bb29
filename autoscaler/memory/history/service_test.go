// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
)

// TestHistory_Alike prefers the services of the kind to those of the namespace, and these
// to those of the pool.
func TestHistory_Alike(t *testing.T) {
	h, now := New(), time.Unix(1e9, 0)
	learn := func(kind, pool string, service float64, times int) {
		for range times {
			h.LearnService(GroupOf(kind, pool), true, &Job{Attained: service}, now)
		}
	}
	of := func(kind, pool string) (length.Origin, int) {
		s := h.Alike(GroupOf(kind, pool))
		return s.Origin, s.Count
	}
	learn("ml/bert", "gpu", 100, length.Enough-1)
	origin, _ := of("ml/bert", "gpu")
	must.Eq(t, "", origin, must.Sprint("too few"))

	learn("ml/bert", "gpu", 100, 100)
	origin, n := of("ml/bert", "gpu")
	must.Eq(t, length.Kind, origin)
	must.Eq(t, length.KindLimit, n)
	origin, n = of("ml/other", "gpu")
	must.Eq(t, length.Namespace, origin)
	must.Eq(t, length.Limit, n)
	origin, _ = of("vision/bert", "gpu")
	must.Eq(t, length.Pool, origin)
	origin, _ = of("vision/bert", "cpu")
	must.Eq(t, "", origin)

	// The newest services count.
	learn("ml/bert", "gpu", 5000, length.KindLimit)
	s := h.Alike(GroupOf("ml/bert", "gpu"))
	must.Between(t, 4999, s.Median, 5001)
}

// TestHistory_LearnService_Unnamed learns nothing for a kind that is used only once.
func TestHistory_LearnService_Unnamed(t *testing.T) {
	h, now := New(), time.Unix(1e9, 0)
	h.LearnService(GroupOf("ml/job-17", "gpu"), false, &Job{Attained: 100}, now)
	h.LearnService(GroupOf("ml/job-18", "gpu"), true, &Job{}, now)
	must.MapNotContainsKey(t, h.Kinds, "ml/job-17")
	must.MapNotContainsKey(t, h.Kinds, "ml/job-18")
	must.Eq(t, []float64{100}, h.Kinds["ml/"].Services)
	must.Eq(t, []float64{100}, h.Kinds["/gpu"].Services)
}
