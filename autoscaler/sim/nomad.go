// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Nomad's limits for batch jobs: it reads nodes in random order, scores the first two
// feasible ones, and skips up to three that score 0 or less.
const (
	nomadOptions = 2
	nomadSkips   = 3
)

// byNomad places more workers of a job that wants a number in all, as far as they find
// room. It chooses nodes like Nomad's generic scheduler for allocations of one group of a
// batch job (hashicorp/nomad, scheduler/stack.go, select.go and rank.go). It returns how
// many it placed.
func (e *engine) byNomad(j *job, per, more, want int) (added int) {
	places := e.cluster.pools[j.typ].places
	h := fnv.New64a()
	h.Write([]byte(j.ID)) // never fails
	j.evaluations++
	rng := rand.New(rand.NewPCG(e.cfg.Seed^h.Sum64(), j.evaluations))
	order := rng.Perm(len(places))
	from := 0 // where the last selection stopped reading
	for added < more {
		best := math.Inf(-1)
		var at placement.Place
		options, read := 0, 0
		var skipped []placement.Place
		take := func(p placement.Place, score float64) {
			options++
			if score > best {
				best, at = score, p
			}
		}
		for ; read < len(order) && options < nomadOptions; read++ {
			p := places[order[(from+read)%len(order)]]
			if e.cluster.free.Free(p) < per || !e.cluster.nodes[p.Node].up {
				continue
			}
			if score := e.nomadScore(j, p, per, want); score > 0 || len(skipped) == nomadSkips {
				take(p, score)
			} else {
				skipped = append(skipped, p)
			}
		}
		for _, p := range skipped {
			if options == nomadOptions {
				break
			}
			take(p, e.nomadScore(j, p, per, want))
		}
		from += read
		if options == 0 {
			return added
		}
		j.add(at, 1)
		e.cluster.take(at.Node, per)
		added++
	}
	return added
}

// nomadScore returns Nomad's score of a node for one more worker of a job. It is how full
// the node is then (bin packing). If the job already has workers there, the score is the
// mean of this and a penalty: minus the job's workers there, with the new one, divided by
// those that it wants (job anti-affinity). CPU and memory are assumed to be requested in
// proportion to GPUs.
func (e *engine) nomadScore(j *job, at placement.Place, per, want int) float64 {
	free := float64(e.cluster.free.Free(at)-per) / float64(e.cluster.nodes[at.Node].GPUs)
	fit := min(max(20-2*math.Pow(10, free), 0), 18) / 18
	for _, s := range j.shares {
		if s.Place == at {
			return (fit - float64(s.Workers+1)/float64(want)) / 2
		}
	}
	return fit
}

// add puts workers at a place.
func (j *job) add(at placement.Place, workers int) {
	for i := range j.shares {
		if j.shares[i].Place == at {
			j.shares[i].Workers += workers
			return
		}
	}
	j.shares = append(j.shares, placement.Share{Place: at, Workers: workers})
}
