// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/placement"
)

// atScale is 12,500 nodes with two islands of 4 GPUs, 16 to a rack and 20 racks to a
// block: 100,000 GPUs below 4 levels. 10,000 jobs have a group in each of four racks of
// one block, and half of the GPUs; every other job wants twice as many, the rest half.
func atScale(locality *Locality) (*Cluster, []Want) {
	const nodes, perRack, perBlock, jobs = 12500, 16, 20, 10000
	c := &Cluster{}
	var racks []*Class
	for n := range nodes {
		c.Nodes = append(c.Nodes, Node{ID: fmt.Sprint(n), Pool: "gpu", CPU: 1e6, Memory: 1e6, Bins: []Bin{{"gpu", 4}, {"gpu", 4}}})
		if n%perRack == 0 {
			racks = append(racks, &Class{})
		}
		rack := racks[len(racks)-1]
		rack.Places = append(rack.Places, placement.Place{Node: n, Bin: 0}, placement.Place{Node: n, Bin: 1})
	}
	used := make([]int, nodes)
	var wants []Want
	for j := range jobs {
		job := Job{Key: JobKey{"default", fmt.Sprintf("job-%05d", j)}, Pool: "gpu", Min: 1, Max: 32, Started: true, Locality: locality}
		for g := range 4 {
			rack := (j*4/perBlock*perBlock + (j*7+g)%perBlock) % (nodes / perRack)
			group := Group{Name: fmt.Sprint("workers-", g), Max: 8, Need: placement.Need{Slots: 1}, Class: racks[rack], Path: []int{rack / perBlock, rack}}
			for n := rack * perRack; n < (rack+1)*perRack && group.Count < 1+j%2; n++ {
				if used[n] < 4 {
					used[n]++
					group.Count++
					group.Live = append(group.Live, Worker{Place: placement.Place{Node: n, Bin: used[n] % 2}})
				}
			}
			job.Groups = append(job.Groups, group)
		}
		c.Jobs = append(c.Jobs, job)
		wants = append(wants, Want{Count: max(1, job.Count()*(1+3*(j%2))/2), Reason: "x"})
	}
	return c, wants
}

// BenchmarkTopology plans for the same cluster without a topology and with one.
func BenchmarkTopology(b *testing.B) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for name, locality := range map[string]*Locality{
		"without": nil,
		"prefer":  {},
		"require": {Rule: placement.Rule{Within: 2, Levels: 2}, Level: "meta.rack"},
	} {
		b.Run(name, func(b *testing.B) {
			c, wants := atScale(locality)
			actions := 0
			o := DefaultOptions()
			o.MaxWrites = 0 // all of them in one plan
			for b.Loop() {
				actions = len(Make(c, wants, now, o).Actions)
			}
			b.ReportMetric(float64(actions), "actions")
		})
	}
}
