// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// NodeClass counts the nodes of one class (Nomad's node_class) in a pool.
type NodeClass struct {
	Pool, Class string
	Nodes       int // nodes that take workers
	Idle        int // of these, those without a worker
	// Waiting is the number of additional nodes that would hold the jobs that wait to
	// start. Growing is the number beyond these that would hold the growth of jobs with
	// workers.
	Waiting, Growing int
}

// NodeClasses counts the nodes of each class, and how many more nodes would be needed for
// the workers that find no room. It assumes that a new node is like the class's node with
// the most slots, and meets every constraint that any node of its class meets.
//
// Workers of jobs that may cross domains take the free room first. A job that must stay in
// one domain is counted on new nodes only, because the free room may be in another domain.
// A job that could use several classes counts for the class of which it needs the fewest
// nodes. A job whose workers fit on no node of any class is not counted. Jobs share new
// nodes: the room that one job leaves on a new node is free for the next job.
func NodeClasses(c *Cluster, wants []Want, short []Shortage, p *Plan, now time.Time) []NodeClass {
	d := newNodeDemand(c, now)
	d.promise(wants, p)
	for _, waiting := range []bool{true, false} {
		for _, s := range short {
			if s.Waiting != waiting {
				continue
			}
			n := s.Workers
			if loc := c.Jobs[s.Job].Locality; loc == nil || loc.Within == 0 {
				n -= d.takeFree(s.Job, n)
			}
			d.add(s, n)
		}
	}
	out := make([]NodeClass, len(d.classes))
	for i, k := range d.classes {
		out[i] = k.NodeClass
	}
	return out
}

// nodeDemand counts the nodes that are wanted.
type nodeDemand struct {
	cluster *Cluster
	free    *capacity // what is free now
	classes []*newNodes
	at      []int // of each node, the index of its class
	served  map[*Class][]service
}

// newNodes are nodes that a class does not have yet.
type newNodes struct {
	NodeClass
	model Node // each of them is like this
	slots int  // of the model
	nodes placement.Capacity
	open  []int // those that may have room left, by number in nodes
}

// service states where workers of a group may go on nodes of a class.
type service struct {
	class int
	types map[string]bool // of bins
}

// openNodes bounds how many new nodes of a class are kept to fill their remaining room.
const openNodes = 64

func newNodeDemand(c *Cluster, now time.Time) *nodeDemand {
	d := &nodeDemand{cluster: c, free: newCapacity(c, now), at: make([]int, len(c.Nodes)), served: map[*Class][]service{}}
	busy := make([]bool, len(c.Nodes))
	for j := range c.Jobs {
		for g := range c.Jobs[j].Groups {
			for _, w := range slices.Concat(c.Jobs[j].Groups[g].Live, c.Jobs[j].Groups[g].Spares) {
				if w.Node >= 0 {
					busy[w.Node] = true
				}
			}
		}
	}
	index := map[[2]string]*newNodes{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		key := [2]string{n.Pool, n.NodeClass}
		if index[key] == nil {
			index[key] = &newNodes{NodeClass: NodeClass{Pool: n.Pool, Class: n.NodeClass}, slots: -1}
			d.classes = append(d.classes, index[key])
		}
		index[key].count(n, busy[i])
	}
	slices.SortFunc(d.classes, func(a, b *newNodes) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Class, b.Class))
	})
	order := map[*newNodes]int{}
	for i, k := range d.classes {
		order[k] = i
	}
	for i := range c.Nodes {
		d.at[i] = order[index[[2]string{c.Nodes[i].Pool, c.Nodes[i].NodeClass}]]
	}
	return d
}

// count adds a node that exists.
func (k *newNodes) count(n *Node, busy bool) {
	if n.State == Ready {
		k.Nodes++
		if !busy {
			k.Idle++
		}
	}
	slots := 0
	for _, b := range n.Bins {
		slots += max(0, b.Slots)
	}
	if cmp.Or(cmp.Compare(slots, k.slots), cmp.Compare(n.CPU, k.model.CPU), cmp.Compare(n.Memory, k.model.Memory)) > 0 {
		k.model, k.slots = *n, slots
	}
}

// promise takes the free room that is already given away: to jobs that grow by this plan,
// and to jobs that get the count that the policy wants later.
func (d *nodeDemand) promise(wants []Want, p *Plan) {
	shortfall, given := p.shortfalls(), p.given()
	for j := range d.cluster.Jobs {
		job := &d.cluster.Jobs[j]
		n := max(given[job.Key], job.Count())
		if job.HoldReason == "" && job.Frozen == "" {
			n = max(n, job.allowed(wants[j].Count)-shortfall[job.Key])
		}
		d.takeFree(j, n-job.Count())
	}
}

// takeFree takes room for up to n more workers of a job on existing nodes, and returns how
// many found some. A group whose workers found no place lately has no room.
func (d *nodeDemand) takeFree(j, n int) int {
	taken := 0
	groups := d.cluster.Jobs[j].Groups
	if d.cluster.Jobs[j].Ratio != nil {
		counts, taken := d.free.splitUnits(j, max(0, n))
		for g, k := range counts {
			d.free.take(j, g, k-groups[g].Count)
		}
		return taken
	}
	for g := range groups {
		if taken >= n {
			break
		}
		if groups[g].GrowAfter.After(d.free.now) {
			continue
		}
		k := max(0, d.free.free(j, g, min(n-taken, groups[g].Max-groups[g].Count)))
		d.free.take(j, g, k)
		taken += k
	}
	return taken
}

// add adds the nodes that n workers of a job need, in addition to the new nodes counted so
// far. The groups of a gang need theirs one after the other. A group without slots needs
// none, because slots are what is short.
func (d *nodeDemand) add(s Shortage, n int) {
	job := &d.cluster.Jobs[s.Job]
	if job.Ratio == nil {
		d.addTo(s, job.Groups, n)
		return
	}
	for g, k := range job.Shape(n) {
		if job.Groups[g].Need.Slots > 0 {
			d.addTo(s, job.Groups[g:g+1], k)
		}
	}
}

// addTo adds the nodes that n workers need in one of the groups.
func (d *nodeDemand) addTo(s Shortage, groups []Group, n int) {
	if n <= 0 {
		return
	}
	var best *newNodes
	var bestAsk placement.Ask
	var bestTypes map[string]bool
	nodes := 0
	for g := range groups {
		if groups[g].Class == nil || groups[g].Count >= groups[g].Max {
			continue
		}
		for _, at := range d.services(groups[g].Class) {
			k, ask := d.classes[at.class], placement.Ask{Need: groups[g].Need}
			if groups[g].Spread {
				ask.Apart = map[int]bool{}
			}
			more, ok := k.more(ask, at.types, n)
			if ok && (best == nil || cmp.Or(cmp.Compare(more, nodes), cmp.Compare(k.slots, best.slots)) < 0) {
				best, bestAsk, bestTypes, nodes = k, ask, at.types, more
			}
		}
	}
	if best == nil {
		return
	}
	best.take(bestAsk, bestTypes, n)
	if s.Waiting {
		best.Waiting += nodes
	} else {
		best.Growing += nodes
	}
}

// services returns the classes whose nodes take workers of a group, in the order of their
// names.
func (d *nodeDemand) services(class *Class) []service {
	if out, known := d.served[class]; known {
		return out
	}
	var out []service
	index := map[int]int{}
	for _, at := range class.Places {
		k, known := index[d.at[at.Node]]
		if !known {
			k = len(out)
			index[d.at[at.Node]] = k
			out = append(out, service{class: d.at[at.Node], types: map[string]bool{}})
		}
		out[k].types[d.cluster.Nodes[at.Node].Bins[at.Bin].Type] = true
	}
	slices.SortFunc(out, func(a, b service) int { return cmp.Compare(a.class, b.class) })
	d.served[class] = out
	return out
}

// addNode adds a new node.
func (k *newNodes) addNode(to *placement.Capacity) int {
	slots := make([]int, len(k.model.Bins))
	for b := range slots {
		slots[b] = k.model.Bins[b].Slots
	}
	return to.AddNode(k.model.CPU, k.model.Memory, slots...)
}

// places returns the bins of these types on new nodes.
func (k *newNodes) places(nodes []int, types map[string]bool) []placement.Place {
	var out []placement.Place
	for _, n := range nodes {
		for b := range k.model.Bins {
			if types[k.model.Bins[b].Type] {
				out = append(out, placement.Place{Node: n, Bin: b})
			}
		}
	}
	return out
}

// each returns how many workers an empty node holds.
func (k *newNodes) each(ask placement.Ask, types map[string]bool, limit int) int {
	var empty placement.Capacity
	n := k.addNode(&empty)
	return empty.Room(k.places([]int{n}, types), placement.Ask{Need: ask.Need, Apart: fresh(ask)}, limit)
}

// fresh returns the Apart of an ask before any of its workers has a place.
func fresh(ask placement.Ask) map[int]bool {
	if ask.Apart == nil {
		return nil
	}
	return map[int]bool{}
}

// more returns how many nodes n workers need in addition to the open ones.
func (k *newNodes) more(ask placement.Ask, types map[string]bool, n int) (nodes int, ok bool) {
	each := k.each(ask, types, n)
	if each == 0 {
		return 0, false
	}
	n -= k.nodes.Room(k.places(k.open, types), ask, n)
	return (n + each - 1) / each, true
}

// take puts n workers on open nodes and on new ones.
func (k *newNodes) take(ask placement.Ask, types map[string]bool, n int) {
	_, placed := k.nodes.Pack(nil, k.places(k.open, types), ask, n)
	n -= placed
	if each := k.each(ask, types, math.MaxInt); each > 0 {
		// Place workers only on the last of many nodes: others may use their room.
		n -= max(0, (n+each-1)/each-openNodes) * each
	}
	for n > 0 {
		node := k.addNode(&k.nodes)
		_, placed := k.nodes.Pack(nil, k.places([]int{node}, types), ask, n)
		if placed == 0 {
			break
		}
		n -= placed
		k.open = append(k.open, node)
	}
	k.open = slices.DeleteFunc(k.open, func(node int) bool {
		for b := range k.model.Bins {
			if k.nodes.Free(placement.Place{Node: node, Bin: b}) > 0 {
				return false
			}
		}
		return true
	})
	k.open = k.open[max(0, len(k.open)-openNodes):]
}
