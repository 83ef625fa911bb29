// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Config is one simulation: a workload, a cluster, a policy and the rules.
type Config struct {
	Trace  *trace.Trace
	Nodes  []trace.Node
	Policy policy.Policy

	// Present, if not nil, is the state at which the simulation begins. Info.Curves is then
	// set.
	Present *Present

	// Queues are the queues between which the cluster is divided; nil means none. A job
	// is in the queue of its tenant's name, or else in the one that takes its tenant as a
	// namespace.
	Queues *queue.Tree

	// SlotCost returns the cost of a GPU of a type in the accounts of queues. If SlotCost
	// is nil, each costs 1.
	SlotCost func(typ string) float64

	// Info is what the policy knows of the jobs.
	Info Info

	// Resize is the cost of a start or a resize.
	Resize ResizeCost

	// Placement is the rule by which workers are placed.
	Placement Placement

	// Scatter is the relative increase of the step time of a job on more nodes than it
	// needs. 0 is none.
	Scatter float64

	// CrossRack is the relative increase of the step time of a job in several racks. 0 is
	// none.
	CrossRack float64

	// MaxMoves bounds how often placement Migrate moves workers of a job within an hour; 0
	// is no limit.
	MaxMoves int

	// Speed is the speed of a GPU type relative to that of the curves; a missing type has
	// 1.
	Speed map[string]float64

	// Interval is the shortest time between two decisions, in seconds. One decision
	// covers all events within it. With 0, there is a decision at every event.
	Interval float64

	// Hold is how many seconds a job keeps its size after a change, as in the planner. A
	// policy's decision about the job takes effect afterwards.
	Hold float64

	// Period is the number of seconds after which the policy is asked even without an
	// event, in addition to the times that it requests itself. 0 means never.
	Period float64

	// Commit is the training time between two commits, in seconds. After a failure, a job
	// goes back to its last commit. With 0, it loses nothing.
	Commit float64

	// Events are failures, withdrawals and returns of nodes, by time.
	Events []trace.NodeEvent

	// Seed seeds the simulation's own randomness, such as the noise of measurements. It is
	// also Snapshot.Seed.
	Seed uint64

	// History keeps every change of every job and of the cluster's use in the Result.
	// Without it, the Result has only their sums.
	History bool
}

// Info states what a policy knows about jobs. With the zero value, remaining work is
// unknown, and step times are measured while a job runs, without noise.
type Info struct {
	// Remaining discloses each job's remaining steps.
	Remaining bool

	// LengthError is the error of disclosed remaining work, as the standard deviation of
	// the logarithm of a factor. Each job has its own factor. With 0, the true work is
	// disclosed.
	LengthError float64

	// NoiseError is the standard deviation of the logarithm of a factor by which jobs that
	// adapt their batch size measure their gradient noise scale wrong. Each job has its own
	// factor. 0 is the truth.
	NoiseError float64

	// Curves discloses the true step times at all sizes from the start. Without it, a size
	// is known once a job has made a few steps at it.
	Curves bool

	// Kinds lets a job take the shape of its curve from other jobs of its App, as the
	// autoscaler does for jobs of one kind (speedup.Shape). It has no effect if Curves is
	// set.
	Kinds bool

	// Noise is the relative standard deviation of one measured step. The error of a size
	// falls with the square root of the steps made at it.
	Noise float64
}

// Class returns the name of an Info, one of Classes.
func (i Info) Class() string {
	switch {
	case i.Remaining && i.Curves:
		return "oracle"
	case i.Curves:
		return "curves"
	case i.Remaining:
		return "declared"
	case i.Kinds:
		return "kinds"
	}
	return "blind"
}

// Classes maps the names that ParseClass accepts to their meaning.
var Classes = map[string]string{
	"oracle":   "exact step times at all sizes, and the remaining work",
	"curves":   "exact step times at all sizes",
	"declared": "the remaining work; step times are measured as jobs run",
	"kinds":    "which jobs are of the same kind and scale alike; step times are measured as jobs run",
	"blind":    "nothing; step times are measured as jobs run",
}

// ParseClass returns the Info of a class, with the given noise.
func ParseClass(s string, noise float64) (Info, error) {
	if _, ok := Classes[s]; !ok {
		return Info{}, fmt.Errorf("unknown information class %q, want one of %v", s, slices.Sorted(maps.Keys(Classes)))
	}
	return Info{
		Remaining: s == "oracle" || s == "declared",
		Curves:    s == "oracle" || s == "curves",
		Kinds:     s == "kinds",
		Noise:     noise,
	}, nil
}

// ResizeCost is the gap, in seconds, in which a job that starts or changes its size holds
// its GPUs without training.
type ResizeCost struct {
	Constant float64

	// BySize overrides Constant: the measured gap by number of workers after the resize.
	// Sizes between two known ones are interpolated; those outside take the nearest.
	BySize map[int]float64
}

// Gap returns the cost of going to the given number of workers. Going to 0 is free.
func (c ResizeCost) Gap(to int) float64 {
	if to == 0 {
		return 0
	}
	if len(c.BySize) == 0 {
		return c.Constant
	}
	sizes := slices.Sorted(maps.Keys(c.BySize))
	i, found := slices.BinarySearch(sizes, to)
	switch {
	case found:
		return c.BySize[to]
	case i == 0:
		return c.BySize[sizes[0]]
	case i == len(sizes):
		return c.BySize[sizes[i-1]]
	}
	lo, hi := sizes[i-1], sizes[i]
	f := float64(to-lo) / float64(hi-lo)
	return (1-f)*c.BySize[lo] + f*c.BySize[hi]
}

// Equal reports whether two costs are the same.
func (c ResizeCost) Equal(d ResizeCost) bool {
	return c.Constant == d.Constant && maps.Equal(c.BySize, d.BySize)
}

// String returns the cost for reports: the number of seconds, or a note that it depends on
// the size.
func (c ResizeCost) String() string {
	if len(c.BySize) > 0 {
		return "by size"
	}
	return strconv.FormatFloat(c.Constant, 'g', -1, 64) + " s"
}

// Placement is the rule that selects nodes for workers.
type Placement int

const (
	// Pack keeps the workers of a job on as few nodes as it can.
	Pack Placement = iota
	// Spread puts each worker on the node with the most free GPUs.
	Spread
	// CountOnly ignores nodes: all GPUs of one type form one pool. Node failures cannot be
	// simulated then.
	CountOnly
	// Nomad places workers as Nomad's scheduler places the allocations of a job with one
	// group. It does not consider step times.
	Nomad
	// Aware puts workers where the job's step is expected to be shortest, and close
	// together if nothing is known.
	Aware
	// Migrate places workers like Aware, and also moves workers of running jobs.
	Migrate
)

var placements = [...]string{"pack", "spread", "count", "nomad", "aware", "migrate"}

func (p Placement) String() string { return placements[p] }

// Placements returns the names that ParsePlacement accepts.
func Placements() []string { return placements[:] }

// ParsePlacement returns the Placement of a name.
func ParsePlacement(s string) (Placement, error) {
	i := slices.Index(placements[:], s)
	if i < 0 {
		return 0, fmt.Errorf("unknown placement %q, want one of %s", s, strings.Join(placements[:], ", "))
	}
	return Placement(i), nil
}

// Uniform returns a cluster of equal nodes, named by type and number.
func Uniform(nodes, gpus int, typ string) []trace.Node {
	out := make([]trace.Node, nodes)
	prefix := typ
	if prefix == "" {
		prefix = "node"
	}
	for i := range out {
		out[i] = trace.Node{ID: fmt.Sprintf("%s-%d", prefix, i), Type: typ, GPUs: gpus}
	}
	return out
}

func (c *Config) validate() error {
	switch {
	case c.Trace == nil || len(c.Trace.Jobs) == 0:
		return errors.New("no jobs to simulate")
	case c.Policy == nil:
		return errors.New("no policy")
	case len(c.Nodes) == 0:
		return errors.New("no nodes")
	case c.Present != nil && (len(c.Present.Jobs) != len(c.Trace.Jobs) || !c.Info.Curves):
		return errors.New("a present state needs every job, and known step times")
	case c.Placement == CountOnly && len(c.Events) > 0:
		return errors.New("nodes can fail only with placement pack or spread")
	}
	seen := make(map[string]bool, len(c.Nodes))
	for _, n := range c.Nodes {
		if n.GPUs < 1 {
			return fmt.Errorf("node %s has %d GPUs", n.ID, n.GPUs)
		}
		if seen[n.ID] {
			return fmt.Errorf("two nodes are named %q", n.ID)
		}
		seen[n.ID] = true
	}
	for _, e := range c.Events {
		if !seen[e.Node] {
			return fmt.Errorf("event at %.0f s names the unknown node %q", e.Time, e.Node)
		}
	}
	for i := range c.Trace.Jobs {
		if err := c.Trace.Jobs[i].Validate(); err != nil {
			return fmt.Errorf("job %s: %w", c.Trace.Jobs[i].ID, err)
		}
		if c.Trace.Jobs[i].Spans != nil && c.Placement == CountOnly {
			return fmt.Errorf("job %s: its step times go by placement, and placement count has none", c.Trace.Jobs[i].ID)
		}
		if i > 0 && c.Trace.Jobs[i].Submit < c.Trace.Jobs[i-1].Submit {
			return fmt.Errorf("job %s comes before the one ahead of it in the trace", c.Trace.Jobs[i].ID)
		}
	}
	return nil
}
