// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Fingerprint returns a hash of the jobs, their bounds, the capacity and the
// shapes of curves. Policies that plan only on events plan again when it
// changes. It does not change just because time passes.
func (s *Snapshot) Fingerprint() uint64 {
	d := digest(offset)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		d.texts(n.ID, n.Type)
		d.numbers(n.GPUs)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		d.texts(j.ID, j.Namespace, j.Queue, j.Tenant, j.Type)
		d.numbers(j.Priority, j.Min, j.Max, j.Preferred, j.Curve.Largest())
		d.sizes(j.Sizes)
		d.add(math.Float64bits(j.Weight))
		d.add(math.Float64bits(j.Deadline))
		if j.Preemptible {
			d.add(1)
		}
		if j.Adapts {
			d.add(2)
		}
		points := j.Curve.Points()
		for _, p := range points {
			d.numbers(p.Size, int(math.Round(100*math.Log(p.StepTime/points[0].StepTime))))
		}
	}
	return uint64(d)
}

// digest is a hash by the method of FNV, of words in place of bytes.
type digest uint64

const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func (d *digest) add(word uint64) {
	x := (uint64(*d) ^ word) * prime
	*d = digest(x ^ x>>32) // the low bits of a product do not depend on the high ones
}

func (d *digest) numbers(of ...int) {
	for _, n := range of {
		d.add(uint64(n))
	}
}

func (d *digest) texts(of ...string) {
	for _, s := range of {
		d.add(uint64(len(s)))
		for i := range len(s) {
			d.add(uint64(s[i]))
		}
	}
}

func (d *digest) sizes(of sizes.Set) {
	if !of.All() {
		d.texts(of.String())
	}
}
