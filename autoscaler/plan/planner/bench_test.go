// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// shape states to which domains the groups of a benchmark's jobs are bound: racks or NVLink
// islands.
type shape struct {
	name   string
	levels int // of a group's path: block, rack, node, island
}

// A cluster of 100,000 GPUs: nodes of two islands of four, 16 nodes a rack, and 16
// racks a block.
const (
	largeNodes    = 12_500
	largeJobs     = 10_000
	nodesPerRack  = 16
	racksPerBlock = 16
)

// large returns that cluster with 10,000 jobs of four groups. A quarter of the jobs are to
// shrink, a quarter to grow and a quarter to start.
func large(s shape, locality *Locality) (*Cluster, []Want) {
	c := &Cluster{}
	var islands []placement.Place
	for i := range largeNodes {
		c.Nodes = append(c.Nodes, Node{ID: strconv.Itoa(i), Pool: "gpu", CPU: 256_000, Memory: 2 << 20, Bins: []Bin{{Slots: 4}, {Slots: 4}}})
		islands = append(islands, placement.Place{Node: i}, placement.Place{Node: i, Bin: 1})
	}
	per := 1 // islands of a domain
	if s.levels == 2 {
		per = 2 * nodesPerRack
	}
	var classes []*Class
	var paths [][]int
	for at := 0; at < len(islands); at += per {
		classes = append(classes, &Class{Places: islands[at:min(at+per, len(islands))]})
		node := at / 2
		rack := node / nodesPerRack
		paths = append(paths, []int{rack / racksPerBlock, rack, node, at}[:s.levels])
	}
	next := make([]int, len(classes)) // slots taken
	wants := make([]Want, largeJobs)
	for j := range largeJobs {
		job := Job{
			Key: identity.JobKey{Namespace: "default", ID: strconv.Itoa(j)}, Pool: "gpu", Index: uint64(j + 1), Min: 1, Max: 64,
			Locality: locality, LastChange: now.Add(-time.Hour),
		}
		for g := range 4 {
			d := s.domain(j, g) % len(classes)
			group := Group{Name: fmt.Sprint("r", g), Max: 64, Class: classes[d], Path: paths[d]}
			group.Need = placement.Need{Slots: 1, CPU: 16_000, Memory: 128 << 10}
			for range 2 * min(1, j%4) {
				if next[d] == 4*len(classes[d].Places) {
					break
				}
				group.Live = append(group.Live, Worker{Place: classes[d].Places[next[d]/4]})
				next[d]++
				job.Started = true
			}
			group.Count = len(group.Live)
			job.Groups = append(job.Groups, group)
		}
		wants[j].Count = []int{8, job.Count() - 2, job.Count() + 4, job.Count()}[j%4]
		c.Jobs = append(c.Jobs, job)
	}
	return c, wants
}

// domain returns the rack or island of a group. The islands of a job are two of one node,
// one of the next node, and one of another rack.
func (s shape) domain(j, g int) int {
	if s.levels == 2 {
		return j*7 + g*13
	}
	return j*7 + []int{0, 1, 2, 3 * 2 * nodesPerRack}[g]
}

// BenchmarkNodeClasses counts the nodes wanted in the same cluster, with every job
// short of 8 workers.
func BenchmarkNodeClasses(b *testing.B) {
	c, wants := large(shape{levels: 2}, nil)
	p := Make(c, wants, now, DefaultOptions())
	ample := make([]int, len(wants))
	for j := range ample {
		ample[j] = wants[j].Count + 8
	}
	for b.Loop() {
		NodeClasses(c, wants, Shortages(c, wants, ample, &p, now), &p, now)
	}
}

// BenchmarkMake plans for 10,000 jobs and 100,000 GPUs in three ways: without a topology,
// with jobs that prefer to be close together, and with jobs that must stay in one rack. The
// three alternate. The fastest plan of each counts, because other programs only add to the
// time.
func BenchmarkMake(b *testing.B) {
	o := DefaultOptions()
	o.MaxWrites = 0
	for _, s := range []shape{{"groups of racks, 2 levels", 2}, {"groups of islands, 4 levels", 4}} {
		b.Run(s.name, func(b *testing.B) {
			variants := []struct {
				name     string
				locality *Locality
				cluster  *Cluster
				wants    []Want
				took     time.Duration // of the fastest plan
			}{
				{name: "none"}, {name: "prefer", locality: &Locality{}},
				{name: "require", locality: &Locality{Rule: placement.Rule{Within: 2}, Level: "meta.rack"}},
			}
			for i := range variants {
				v := &variants[i]
				v.cluster, v.wants = large(s, v.locality)
			}
			for b.Loop() {
				for i := range variants {
					v := &variants[i]
					start := time.Now()
					Make(v.cluster, v.wants, now, o)
					if took := time.Since(start); v.took == 0 || took < v.took {
						v.took = took
					}
				}
			}
			for _, v := range variants {
				b.ReportMetric(v.took.Seconds()*1000, v.name+"-ms")
				if v.locality != nil {
					b.ReportMetric(float64(v.took)/float64(variants[0].took), v.name+"/none")
				}
			}
		})
	}
}
