// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import "math"

// network is a flow network whose edges have a capacity and a cost.
type network struct {
	edges []edge
	from  [][]int // by vertex: its edges; the reverse of edge e is e^1
}

type edge struct{ to, capacity, cost int }

func newNetwork(vertices int) *network { return &network{from: make([][]int, vertices)} }

// connect adds an edge, and returns its number.
func (g *network) connect(a, b, capacity, cost int) int {
	e := len(g.edges)
	g.edges = append(g.edges, edge{b, capacity, cost}, edge{a, 0, -cost})
	g.from[a], g.from[b] = append(g.from[a], e), append(g.from[b], e+1)
	return e
}

// used returns the flow on an edge.
func (g *network) used(e int) int { return g.edges[e^1].capacity }

// send sends up to want units from source to sink at the least cost, and returns how many
// arrive. It sends them path by path, each time on the cheapest one left (Bellman and
// Ford).
func (g *network) send(source, sink, want int) (sent int) {
	for sent < want {
		via := g.shortest(source)
		if via[sink] < 0 {
			break
		}
		k := want - sent
		for v := sink; v != source; v = g.edges[via[v]^1].to {
			k = min(k, g.edges[via[v]].capacity)
		}
		for v := sink; v != source; v = g.edges[via[v]^1].to {
			g.edges[via[v]].capacity -= k
			g.edges[via[v]^1].capacity += k
		}
		sent += k
	}
	return sent
}

// shortest returns the last edge of the cheapest path to each vertex, -1 for none.
func (g *network) shortest(source int) []int {
	via, far := make([]int, len(g.from)), make([]int, len(g.from))
	for v := range via {
		via[v], far[v] = -1, math.MaxInt
	}
	far[source] = 0
	queue, queued := []int{source}, make([]bool, len(g.from))
	for len(queue) > 0 {
		v := queue[0]
		queue, queued[v] = queue[1:], false
		for _, e := range g.from[v] {
			to := g.edges[e].to
			if g.edges[e].capacity <= 0 || far[v]+g.edges[e].cost >= far[to] {
				continue
			}
			far[to], via[to] = far[v]+g.edges[e].cost, e
			if !queued[to] {
				queue, queued[to] = append(queue, to), true
			}
		}
	}
	return via
}
