// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/placement"
)

// Compact is the move of a job's workers to fewer domains that gains most, and
// whether there is one that is worth its cost.
func Compact(j *Job, o Options) (Move, bool) {
	var best Move
	found := false
	if j.Slowdown == nil || j.size() < 2 {
		return best, false
	}
	for _, d := range domains(j.Sites) {
		for _, counts := range [][]int{j.gathered(d), j.vacated(d)} {
			if counts == nil {
				continue
			}
			m, ok := j.move(counts, o)
			if !ok || m.Slowdown > 1-o.LeastGain || !o.worth(m.Gain, m.Cost) {
				continue
			}
			if !found || m.Gain-m.Cost > best.Gain-best.Cost {
				best, found = m, true
			}
		}
	}
	return best, found
}

// domain is sites that have the beginning of their path in common.
type domain struct {
	in     []bool // by site
	levels int
}

// domains are those of all levels that hold sites, the outermost first.
func domains(sites []placement.Site) []domain {
	var out []domain
	for l := 1; ; l++ {
		found := false
		var seen []int // the first site of each
		for i := range sites {
			if len(sites[i].Path) < l {
				continue
			}
			found = true
			same := func(k int) bool { return slices.Equal(sites[k].Path[:l], sites[i].Path[:l]) }
			if slices.ContainsFunc(seen, same) {
				continue
			}
			seen = append(seen, i)
			d := domain{in: make([]bool, len(sites)), levels: l}
			for k := range sites {
				d.in[k] = len(sites[k].Path) >= l && same(k)
			}
			out = append(out, d)
		}
		if !found {
			return out
		}
	}
}

// gathered are the counts with all workers in one domain, nil where it has no
// room for them or holds them already.
func (j *Job) gathered(d domain) []int { return j.shifted(func(i int) bool { return d.in[i] }) }

// vacated are the counts with the workers of a domain in others that the job is
// at: nil where those have no room.
func (j *Job) vacated(d domain) []int {
	return j.shifted(func(i int) bool { return !d.in[i] && j.Sites[i].Held > 0 })
}

// shifted are the counts with all workers at some of the sites.
func (j *Job) shifted(to func(site int) bool) []int {
	counts := j.counts()
	var inside []placement.Site
	var at []int
	out := 0
	for i := range j.Sites {
		switch s := &j.Sites[i]; {
		case to(i):
			inside, at = append(inside, *s), append(at, i)
		case s.Fixed > 0:
			return nil
		default:
			out += s.Held
			counts[i] = 0
		}
	}
	if out == 0 || len(inside) == 0 {
		return nil
	}
	more, placed := placement.Grow(inside, out, placement.Rule{})
	if placed < out {
		return nil
	}
	for k, n := range more {
		counts[at[k]] += n
	}
	return counts
}
