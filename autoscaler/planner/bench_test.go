// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/placement"
)

// large is 100,000 GPUs in 12,500 nodes of two islands, 16 nodes a rack and 16
// racks a block, and 10,000 jobs of four groups, each bound to a rack. A quarter
// of the jobs is to shrink, one to grow and one to start.
func large(locality *Locality) (*Cluster, []Want) {
	const racks, nodesPerRack, racksPerBlock, jobs = 782, 16, 16, 10_000
	c := &Cluster{}
	classes := make([]*Class, racks)
	for i := range 12_500 {
		c.Nodes = append(c.Nodes, Node{ID: fmt.Sprint(i), Pool: "gpu", Bins: []Bin{{Slots: 4}, {Slots: 4}}})
		r := i / nodesPerRack
		if classes[r] == nil {
			classes[r] = &Class{}
		}
		classes[r].Places = append(classes[r].Places, placement.Place{Node: i}, placement.Place{Node: i, Bin: 1})
	}
	next := make([]int, racks) // slots taken, by rack
	wants := make([]Want, jobs)
	for j := range jobs {
		job := Job{
			Key: JobKey{"default", fmt.Sprint(j)}, Pool: "gpu", Index: uint64(j + 1), Min: 1, Max: 64,
			Locality: locality, LastChange: now.Add(-time.Hour),
		}
		for g := range 4 {
			r := (j*7 + g*13) % racks
			group := Group{Name: fmt.Sprint("r", g), Max: 64, Need: placement.Need{Slots: 1}, Class: classes[r]}
			if locality != nil {
				group.Path = []int{r / racksPerBlock, r}
			}
			for range 2 * min(1, j%4) {
				if next[r] == 4*len(classes[r].Places) {
					break
				}
				at := classes[r].Places[next[r]/4]
				next[r]++
				group.Live = append(group.Live, Worker{Place: at})
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

// BenchmarkMake plans for 10,000 jobs and 100,000 GPUs in four levels, with
// topology and without.
func BenchmarkMake(b *testing.B) {
	o := DefaultOptions()
	o.MaxWrites = 0
	for name, locality := range map[string]*Locality{"without topology": nil, "with topology": {}} {
		b.Run(name, func(b *testing.B) {
			c, wants := large(locality)
			actions := 0
			for b.Loop() {
				actions = len(Make(c, wants, now, o).Actions)
			}
			b.ReportMetric(float64(actions), "actions")
		})
	}
}
