// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Metrics for who adds nodes.
var (
	slotsWantedDesc = prometheus.NewDesc("kolo_slots_wanted", "Slots that jobs would use if there was room, beyond those they have and get.", []string{"pool", "queue", "level"}, nil)
	nodesDesc       = prometheus.NewDesc("kolo_nodes", "Nodes that take workers, by Nomad's node class.", []string{"pool", "class"}, nil)
	idleDesc        = prometheus.NewDesc("kolo_nodes_idle", "Nodes that take workers and have none.", []string{"pool", "class"}, nil)
	nodesWantedDesc = prometheus.NewDesc("kolo_nodes_wanted", "More nodes that jobs could use: waiting ones, and on top of them those that would grow.", []string{"pool", "class", "state"}, nil)
)

func nodeGauges(gauge func(*prometheus.Desc, float64, ...string), p *api.PoolStatus) {
	for _, k := range p.Nodes {
		gauge(nodesDesc, float64(k.Nodes), p.Name, k.Class)
		gauge(idleDesc, float64(k.Idle), p.Name, k.Class)
		gauge(nodesWantedDesc, float64(k.Waiting), p.Name, k.Class, "waiting")
		gauge(nodesWantedDesc, float64(k.Growing), p.Name, k.Class, "growing")
	}
}

type wantedKey struct{ pool, queue, level string }

// namedQueues is how many queues of a pool have series of their own: jobs choose
// their names.
const namedQueues = 100

// slotsWanted is what jobs lack. Queues of jobs that the reader may not see, and
// those beyond namedQueues, are one without a name: the sum is that of all. Each
// pool has a series, so that a sum over none is 0.
func slotsWanted(s *api.Status, sees func(planner.JobKey) bool) map[wantedKey]int {
	type queue struct{ pool, name string }
	slots := map[queue]int{}
	seen := make([]bool, len(s.Jobs))
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Lacks != nil && sees(j.JobKey) {
			seen[i] = true
			slots[queue{j.Pool, j.Queue}] += j.Lacks.Slots
		}
	}
	largest := make([]queue, 0, len(slots))
	for q := range slots {
		largest = append(largest, q)
	}
	slices.SortFunc(largest, func(a, b queue) int {
		return cmp.Or(cmp.Compare(slots[b], slots[a]), cmp.Compare(a.name, b.name))
	})
	named, of := map[queue]bool{}, map[string]int{}
	for _, q := range largest {
		if of[q.pool] < namedQueues {
			named[q], of[q.pool] = true, of[q.pool]+1
		}
	}
	out := map[wantedKey]int{}
	for _, p := range s.Pools {
		out[wantedKey{pool: p.Name}] = 0
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Lacks == nil {
			continue
		}
		key := wantedKey{pool: j.Pool, level: j.Lacks.Level}
		if seen[i] && named[queue{j.Pool, j.Queue}] {
			key.queue = j.Queue
		}
		out[key] += j.Lacks.Slots
	}
	return out
}
