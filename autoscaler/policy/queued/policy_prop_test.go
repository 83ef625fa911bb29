// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// cluster is a pool with random queues, to which random things happen.
type cluster struct {
	*table
	rng    *rand.Rand
	tree   *queue.Tree
	top    []queue.Queue // the outermost ones
	queues []queue.Queue // all, without those around them
	orders []queue.Order // that a queue may have
	made   int
	timed  bool // queues have half-lives and budgets
}

func randomCluster(t *testing.T, seed uint64, line string, orders ...queue.Order) *cluster {
	rng := rand.New(rand.NewPCG(seed, 2))
	slots := 4 + rng.IntN(60)
	c := &cluster{rng: rng, orders: append(orders, "")}
	c.top = c.some(slots, slots, 2)
	c.tree = treeOf(t, c.top...)
	c.table = newTable(t, slots, New(c.tree, policyOf(t, line), nil))
	return c
}

func (c *cluster) some(slots, guarantee, depth int) (out []queue.Queue) {
	for range 1 + c.rng.IntN(4) {
		one := queue.Queue{Name: fmt.Sprint("q", len(c.queues)), Weight: 1 + c.rng.IntN(3*queue.WeightUnit)}
		if c.rng.IntN(3) > 0 {
			one.Guarantee = c.rng.IntN(guarantee + 1)
			guarantee -= one.Guarantee
		}
		if c.rng.IntN(4) == 0 {
			one.Limit = one.Guarantee + 1 + c.rng.IntN(slots)
		}
		if c.rng.IntN(4) == 0 {
			one.MaxJobs = 1 + c.rng.IntN(3)
		}
		if c.timed {
			c.remembers(&one)
		}
		if len(c.orders) > 1 {
			one.Order = c.orders[c.rng.IntN(len(c.orders))]
		}
		at := len(c.queues)
		c.queues = append(c.queues, one)
		switch c.rng.IntN(4) {
		case 0:
			if depth > 0 {
				one.Queues = c.some(slots, one.Guarantee, depth-1)
			}
		case 1:
			one.PerNamespace = &queue.Caps{Limit: 1 + c.rng.IntN(max(1, one.Limit))}
		}
		c.queues[at] = one
		out = append(out, one)
	}
	return out
}

// arrive adds a job: of any size and shape if wild, else one that may have each number of
// slots.
func (c *cluster) arrive(wild bool) {
	c.made++
	of := c.queues[c.rng.IntN(len(c.queues))].Name
	if c.rng.IntN(5) == 0 {
		of = ""
	}
	c.job(fmt.Sprint("j", c.made), of, 1, 1+c.rng.IntN(40), func(j *policy.Job) {
		j.Namespace, j.Submit = fmt.Sprint("n", c.rng.IntN(3)), float64(c.made)
		j.Preemptible = c.rng.IntN(2) == 0
		if wild {
			j.Min = 1 + c.rng.IntN(10)
			j.Max = j.Min + c.rng.IntN(20)
			j.PerWorker = c.rng.IntN(4)
			j.Priority = c.rng.IntN(3)
			j.Preferred = c.rng.IntN(20)
			if c.rng.IntN(3) == 0 {
				j.Sizes = sizes.List(1, 2, 4, 8, 16)
			}
		}
	})
}

func (c *cluster) leave() {
	if len(c.s.Jobs) > 0 {
		at := c.rng.IntN(len(c.s.Jobs))
		c.s.Jobs = slices.Delete(c.s.Jobs, at, at+1)
	}
}

// happen is one event.
func (c *cluster) happen(wild bool) {
	c.s.Now += 10
	if c.rng.IntN(3) == 0 {
		c.leave()
		return
	}
	c.arrive(wild)
}

// uses returns the slots of each node, and those that are firm.
func (c *cluster) uses() (l *queue.Layout, used, firm []int) {
	l = c.tree.Layout()
	for i := range c.s.Jobs {
		l.Leaf(c.s.Jobs[i].Queue, c.s.Jobs[i].Namespace)
	}
	used, firm = make([]int, len(l.Nodes)), make([]int, len(l.Nodes))
	for i := range c.s.Jobs {
		j := &c.s.Jobs[i]
		l.Path(l.Leaf(j.Queue, j.Namespace), func(n int) bool {
			used[n] += j.Count * max(1, j.PerWorker)
			if j.Count > 0 && !j.Preemptible {
				firm[n] += j.Sizes.Above(j.Min-1) * max(1, j.PerWorker)
			}
			return true
		})
	}
	return l, used, firm
}

// For any policies, jobs and queues: totals and limits hold, guarantees stay within reach,
// and only preemptible jobs are suspended.
func TestPolicy_Promises(t *testing.T) {
	for _, line := range builtin.Policies.Names() {
		t.Run(line, func(t *testing.T) {
			for seed := range uint64(30) {
				c := randomCluster(t, seed, line)
				if seed%2 == 0 {
					c = randomCluster(t, seed, line, queue.OrderStrict, queue.OrderSkip)
				}
				for range 25 {
					c.happen(true)
					before := slices.Clone(c.s.Jobs)
					c.decide()
					l, used, firm := c.uses()
					for n, node := range l.Nodes {
						must.True(t, n == 0 || node.Limit == 0 || used[n] <= node.Limit)
					}
					must.LessEq(t, c.s.Nodes[0].GPUs, used[0])
					_, inReach := l.Reserve(c.s.Nodes[0].GPUs, firm, true).Fits(0, 0)
					must.True(t, inReach, must.Sprint("guarantees are out of reach"))
					for i := range before {
						must.True(t, before[i].Count == 0 || before[i].Preemptible || c.s.Jobs[i].Count >= before[i].Min)
					}
				}
			}
		})
	}
}

// In a pool of several GPU types, the decisions of all queues together stay within the
// slots of each type, whatever jobs hold and ask for.
func TestPolicy_Types(t *testing.T) {
	types := []string{"a100", "h100", "l40"}
	for _, line := range append(builtin.Policies.Names(), "stubborn") {
		t.Run(line, func(t *testing.T) {
			for seed := range uint64(30) {
				c := randomCluster(t, seed, "kolo")
				c.p = New(c.tree, stubborn{}, nil)
				if line != "stubborn" {
					c.p = New(c.tree, policyOf(t, line), nil)
				}
				c.s.Nodes = nil
				for _, typ := range types {
					c.s.Nodes = append(c.s.Nodes, policy.Node{ID: typ, Type: typ, GPUs: c.rng.IntN(30)})
				}
				for range 25 {
					c.happen(true)
					c.s.Nodes[c.rng.IntN(len(types))].GPUs = c.rng.IntN(30) // nodes come and go
					if last := len(c.s.Jobs) - 1; last >= 0 && c.rng.IntN(2) == 0 && c.s.Jobs[last].Count == 0 {
						c.s.Jobs[last].Type = types[c.rng.IntN(len(types))]
					}
					c.decide()
					for i := range c.s.Jobs {
						j, a := &c.s.Jobs[i], &c.last.Allocations[i]
						if j.Held = ""; j.Count > 0 {
							j.Held = cmp.Or(j.Type, a.Type, types[0])
						}
					}
				}
			}
		})
	}
}

// Jobs have any size, and the policy gives out all its slots. A queue that wants its
// guarantee has it, no slot stays free that someone may use, no queue that lost slots has
// less for its weight than one that gained some, and slots move only at an event.
func TestPolicy_Divides(t *testing.T) {
	for seed := range uint64(200) {
		c := randomCluster(t, seed, "elastic-fifo")
		for range 20 {
			c.happen(false)
			c.decide()
			counts := c.counts()
			l, used, _ := c.uses()
			wanted := c.wanted(l)
			for n, node := range l.Nodes[1:] {
				must.GreaterEq(t, min(node.Guarantee, wanted[n+1]), used[n+1], must.Sprintf("seed %d: guarantee of %s", seed, node.Name))
			}
			if used[0] < c.s.Nodes[0].GPUs {
				must.Eq(t, wanted[0], used[0], must.Sprintf("seed %d: unused slots", seed))
			}
			must.Eq(t, counts, c.decide().counts(), must.Sprintf("seed %d: moved without an event", seed))
		}
	}
}

// wanted returns what each node could use: of jobs that run or wait for room only.
func (c *cluster) wanted(l *queue.Layout) []int {
	out := make([]int, len(l.Nodes))
	for i := range c.s.Jobs {
		j, r := &c.s.Jobs[i], c.last.Allocations[i].Reason
		firm := starts(r, waiting.WaitsForGuarantee) || starts(r, waiting.NoRoom) && strings.Contains(r, "jobs that cannot be suspended leave")
		if j.Count > 0 || !firm && !starts(r, waiting.OverLimit) && !starts(r, waiting.Budget) {
			out[l.Leaf(j.Queue, j.Namespace)] += j.Max
		}
	}
	for n := len(out) - 1; n >= 0; n-- {
		if l.Nodes[n].Limit > 0 {
			out[n] = min(out[n], l.Nodes[n].Limit)
		}
		if p := l.Nodes[n].Parent; p >= 0 {
			out[p] += out[n]
		}
	}
	return out
}

func starts(reason string, w waiting.Reason) bool {
	return len(reason) > len(w) && reason[:len(w)] == string(w)
}

// A tenant that reports false numbers, and asks for the highest priority and weight, gets
// no slot that another queue wants and is entitled to.
func TestPolicy_HostileReports(t *testing.T) {
	for _, line := range builtin.Policies.Names() {
		t.Run(line, func(t *testing.T) {
			for seed := range uint64(40) {
				rng := rand.New(rand.NewPCG(seed, 3))
				tree := treeOf(t, q("honest", 6), q("hostile", 2))
				w := newTable(t, 16, New(tree, policyOf(t, line), map[string]policy.Policy{"honest": policyOf(t, "elastic-fifo")}))
				w.job("a", "honest", 1, 16)
				for k := range 3 {
					w.job(fmt.Sprint("b", k), "hostile", 1, 64, func(j *policy.Job) {
						var points []speedup.Point
						for n := 1; n <= 64; n *= 2 {
							points = append(points, speedup.Point{Size: n, StepTime: math.Pow(float64(n), -3) * (0.5 + rng.Float64()), Samples: 1 + rng.IntN(100)})
						}
						j.Curve = speedup.NewCurve(points...)
						j.Weight, j.Priority, j.Preferred = 1e6, 32766, 64
						j.Remaining, j.Deadline = math.Pow(10, 12*rng.Float64()-3), rng.Float64()*100
						j.Preemptible = rng.IntN(2) == 0
					})
				}
				for range 5 {
					w.decide()
					must.GreaterEq(t, 10, w.s.Jobs[0].Count, must.Sprintf("seed %d: %s", seed, w.counts())) // its guarantee, and half of the rest
					w.s.Now += 100
				}
			}
		})
	}
}
