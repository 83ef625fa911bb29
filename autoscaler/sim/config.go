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

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Config is one simulation: a workload, a cluster, a policy and the rules.
type Config struct {
	Trace  *trace.Trace
	Nodes  []trace.Node
	Policy policy.Policy

	// Info is the policy's information about the jobs.
	Info Info

	// Resize is the cost of a start or a resize.
	Resize ResizeCost

	// Placement selects the nodes of workers.
	Placement Placement

	// Scatter is the part by which a step takes longer than by the curve if the job is on
	// more nodes than it needs. 0 means no difference.
	Scatter float64

	// CrossRack is the part by which a step takes longer if the job is in several racks.
	// 0 means no difference.
	CrossRack float64

	// MaxMoves is how often placement Migrate may move workers of a job within
	// an hour; 0 means no limit.
	MaxMoves int

	// Speed is the speed of a GPU type relative to that of the curves. It is 1 for types
	// that are not named.
	Speed map[string]float64

	// Interval is the least time between two decisions, in seconds. A decision covers all
	// events since the last one. 0 decides at every event.
	Interval float64

	// Hold is how long, in seconds, a job is left alone after a change of its size, as by
	// the planner. Until then, the policy's wants for the job have no effect.
	Hold float64

	// Period asks for a decision at this interval, in seconds, even if nothing happens,
	// in addition to those that the policy asks for. 0 means never.
	Period float64

	// Commit is the training time between two commits, in seconds. A failure takes a job
	// back to the last commit. With 0, no step is lost.
	Commit float64

	// Events are failures, withdrawals and returns of nodes, by time.
	Events []trace.NodeEvent

	// Seed seeds the noise of measurements, and is Snapshot.Seed.
	Seed uint64

	// History keeps every change of every job and of the cluster's use in the Result.
	// Without it, only their sums are kept.
	History bool
}

// Info selects the information that a policy has. With the zero value, remaining work is
// unknown, and step times are learned as a job runs, without noise.
type Info struct {
	// Remaining discloses each job's remaining steps.
	Remaining bool

	// Curves discloses the true step times at all sizes from the start. Without it, a
	// size is known after a job has made a few steps at it.
	Curves bool

	// Kinds lets a job use measurements of other jobs of its App to estimate how it
	// scales, as the autoscaler does for jobs of one kind (speedup.Shape). It has no
	// effect with Curves.
	Kinds bool

	// Noise is the relative standard deviation of one measured step. The error of a
	// size's mean decreases with the square root of the number of steps.
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

// Classes has the names that ParseClass accepts, with their meaning.
var Classes = map[string]string{
	"oracle":   "exact step times at all sizes, and the remaining work",
	"curves":   "exact step times at all sizes",
	"declared": "the remaining work; step times are measured as jobs run",
	"kinds":    "which jobs are of one kind, and so scale alike; step times are measured as jobs run",
	"blind":    "nothing; step times are measured as jobs run",
}

// ParseClass returns the Info of a Class, with the given noise.
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

// ResizeCost is the gap, in seconds, in which a job that starts or changes
// its size holds its GPUs and trains nothing.
type ResizeCost struct {
	Constant float64

	// BySize overrides Constant: the gap by number of workers after the
	// resize, as measured. Sizes between two known ones are interpolated,
	// those outside take the nearest.
	BySize map[int]float64
}

// Gap returns the cost of a resize to a number of workers. A resize to 0 costs nothing.
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

// String returns the cost for reports: seconds, or "by size".
func (c ResizeCost) String() string {
	if len(c.BySize) > 0 {
		return "by size"
	}
	return strconv.FormatFloat(c.Constant, 'g', -1, 64) + " s"
}

// Placement selects how nodes are chosen for workers.
type Placement int

const (
	// Pack keeps the workers of a job on as few nodes as it can.
	Pack Placement = iota
	// Spread puts each worker on the node with the most free GPUs.
	Spread
	// CountOnly ignores nodes: the GPUs of one type are one pool. Nodes can't fail.
	CountOnly
	// Nomad places workers where Nomad's scheduler places the allocations of a job with
	// one group. The scheduler does not know step times.
	Nomad
	// Aware puts workers where the job's step is expected to be shortest, or close
	// together if step times are unknown.
	Aware
	// Migrate does what Aware does, and also moves workers of running jobs.
	Migrate
)

var placements = [...]string{"pack", "spread", "count", "nomad", "aware", "migrate"}

func (p Placement) String() string { return placements[p] }

// Placements returns the names that ParsePlacement accepts.
func Placements() []string { return placements[:] }

// ParsePlacement returns the Placement with a name.
func ParsePlacement(s string) (Placement, error) {
	i := slices.Index(placements[:], s)
	if i < 0 {
		return 0, fmt.Errorf("unknown placement %q, want one of %s", s, strings.Join(placements[:], ", "))
	}
	return Placement(i), nil
}

// Uniform returns a cluster of equal nodes, named after their type and number.
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
