// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Trace is a workload: jobs in order of arrival. If the source of the trace describes it,
// the cluster that they ran on is included.
type Trace struct {
	Name string
	Jobs []Job

	// Nodes is the cluster of the trace, nil if it names none.
	Nodes []Node

	// Events are failures, withdrawals and returns of nodes, by time.
	Events []NodeEvent

	// Gaps are measured seconds without training per resize, by the number of workers after
	// it; nil if the trace has none.
	Gaps map[int]float64

	// Skipped are the entries that were left out, with the reason. Only a
	// reader that was asked to skip leaves entries out.
	Skipped []error
}

// Job is one training job, with its true step times.
type Job struct {
	ID       string
	App      string // what it trains; jobs of one App scale alike, more or less
	Tenant   string
	Type     string // GPU type it needs, "" is any
	Weight   float64
	Priority int

	Submit   float64 // seconds from the start of the trace
	Deadline float64 // the same clock, 0 is none

	Min, Max  int
	Preferred int
	Sizes     sizes.Set // allowed sizes
	PerWorker int       // GPUs that one worker holds

	Preemptible bool

	Steps float64 // global steps to complete
	Batch int     // global batch size, 0 is unknown
	Curve *Curve

	// Spans are step times by placement, nil if step times depend on the number of workers
	// alone.
	Spans *Spans

	// Goodput, if not nil, is the progress of a job that adapts its batch size. A step is
	// then a unit of progress, and Curve that of the first phase.
	Goodput *Goodput
}

// Node is one machine.
type Node struct {
	ID   string
	Type string
	GPUs int
	Rack string // the domain that it shares with other nodes, "" is none
}

// NodeEventKind is the kind of a node event: a failure, a return or a withdrawal.
type NodeEventKind int

const (
	// NodeDown is the failure of a node: jobs that trained on it go back to their last
	// commit.
	NodeDown NodeEventKind = iota
	// NodeUp is the return of a node.
	NodeUp
	// NodeWithdraw is the withdrawal of a node with notice, such as of a spot instance. Its
	// workers leave at a commit, and no step is lost.
	NodeWithdraw
)

func (k NodeEventKind) String() string { return [...]string{"down", "up", "withdraw"}[k] }

// ParseNodeEventKind returns the NodeEventKind of a name.
func ParseNodeEventKind(s string) (NodeEventKind, error) {
	for _, k := range []NodeEventKind{NodeDown, NodeUp, NodeWithdraw} {
		if s == k.String() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("want down, up or withdraw, got %q", s)
}

// NodeEvent is a change in the cluster.
type NodeEvent struct {
	Time float64
	Node string
	Kind NodeEventKind
}

// StepTime returns the true time of one global step on n workers, in seconds.
func (j *Job) StepTime(n int) float64 { return j.Curve.StepTime(n) }

// Duration returns how long all steps of the job take on n workers, in seconds.
func (j *Job) Duration(n int) float64 {
	if j.Goodput != nil {
		return j.Goodput.Time(n)
	}
	return j.Steps * j.StepTime(n)
}

// GPUs returns how many GPUs n workers hold.
func (j *Job) GPUs(n int) int { return n * max(1, j.PerWorker) }

// Validate returns an error for the first field of the job that is not valid.
func (j *Job) Validate() error {
	switch {
	case j.ID == "":
		return errors.New("a job needs an id")
	case j.Curve == nil:
		return errors.New("no step times")
	case !finite(j.Submit) || j.Submit < 0:
		return fmt.Errorf("submit time %v: want seconds from 0", j.Submit)
	case !finite(j.Steps) || j.Steps <= 0:
		return fmt.Errorf("steps %v: want more than 0", j.Steps)
	case j.Min < 1 || j.Max < j.Min:
		return fmt.Errorf("bounds %d to %d: want 1 <= min <= max", j.Min, j.Max)
	case j.Max > maxSize || j.PerWorker > maxSize:
		return fmt.Errorf("up to %d workers of %d GPUs: want at most %d", j.Max, j.PerWorker, maxSize)
	case j.Preferred < j.Min || j.Preferred > j.Max:
		return fmt.Errorf("preferred %d is outside %d to %d", j.Preferred, j.Min, j.Max)
	case j.Deadline != 0 && !(j.Deadline > j.Submit):
		return fmt.Errorf("deadline %v is not after the submit time %v", j.Deadline, j.Submit)
	}
	return nil
}

// order sorts jobs and events by time. Those of the same time stay in the order of the
// file.
func (t *Trace) order() {
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	slices.SortStableFunc(t.Events, func(a, b NodeEvent) int { return cmp.Compare(a.Time, b.Time) })
}

// shift moves all times so that the first arrival is at 0, for traces with dates or with
// offsets of their own.
func (t *Trace) shift() {
	if len(t.Jobs) == 0 {
		return
	}
	first := t.Jobs[0].Submit
	for i := range t.Jobs {
		first = min(first, t.Jobs[i].Submit)
	}
	for i := range t.Jobs {
		t.Jobs[i].Submit -= first
		if t.Jobs[i].Deadline != 0 {
			t.Jobs[i].Deadline -= first
		}
	}
	for i := range t.Events {
		t.Events[i].Time = max(0, t.Events[i].Time-first)
	}
}

// Limit lowers the bounds of jobs that are larger than the cluster, so that no job waits
// forever. gpus returns how many GPUs of a type the cluster has. Limit returns the jobs
// that do not fit even at their minimum.
func (t *Trace) Limit(gpus func(typ string) int) []string {
	var never []string
	for i := range t.Jobs {
		j := &t.Jobs[i]
		most := gpus(j.Type) / max(1, j.PerWorker)
		if most < j.Min {
			never = append(never, j.ID)
			continue
		}
		j.Max = min(j.Max, most)
		j.Preferred = min(j.Preferred, j.Max)
	}
	return never
}
