// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

func TestKolo_GrowsAtOnceToASizeThatItsKindIsKnownAt(t *testing.T) {
	var kind speedup.Shape
	speed := []float64{1, 1.5, 2, 2.5, 2.4, 2.4, 2.3, 2.25} // 8 workers are slower than 4
	points := []speedup.Point{{Size: 2, StepTime: 1 / speed[1]}}
	for _, n := range []int{4, 8} {
		points = append(points, speedup.Point{Size: n, StepTime: 1 / speed[n-1]})
		kind.Learn(speedup.NewCurve(points...), n)
	}
	job := policy.Job{Preferred: 2, Count: 2, Attained: 1e5, RunTime: 5e4, Curve: kind.Extend(speedup.NewCurve(speedup.Point{Size: 2, StepTime: 5 / speed[1]}))}
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	must.Eq(t, []int{4}, counts(p.Allocate(cluster(8, job))))
}
