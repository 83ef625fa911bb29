// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import "github.com/kolo-nomad/kolo/autoscaler/sim/trace"

// Result is the outcome of a simulation.
type Result struct {
	Jobs []JobResult // in order of arrival

	// Makespan is the time of the last completion, in seconds from the start
	// of the trace.
	Makespan float64

	// Held and Capacity are GPU-seconds until the last completion.
	Held, Capacity float64

	// Gap is the part of Held without training because of starts and resizes. Lost is the
	// part whose steps were lost in a failure. Both are in GPU-seconds.
	Gap, Lost float64

	// Scattered is the part of Held, in GPU-seconds, of jobs on more nodes than
	// needed.
	Scattered float64

	// Decisions is how often the policy was asked. Refused is how often a wanted count
	// found no place, because the free GPUs were fragmented.
	Decisions, Refused int

	// Queues has the use of each queue, by name, only with Config.Queues.
	Queues []QueueResult

	// Usage is the use of the cluster over time, only with Config.History.
	Usage []Usage
}

// note records the use of the cluster if it has changed. The last one of an instant counts.
func (r *Result) note(u Usage) {
	last := len(r.Usage) - 1
	if last >= 0 && r.Usage[last].Time == u.Time {
		r.Usage[last] = u
		return
	}
	same := u
	if last >= 0 {
		same.Time = r.Usage[last].Time
	}
	if last < 0 || same != r.Usage[last] {
		r.Usage = append(r.Usage, u)
	}
}

// JobResult is the outcome for one job.
type JobResult struct {
	ID, App, Tenant string

	Submit float64
	Start  float64 // of its first worker
	Done   float64 // of its completion
	Ended  bool    // false: it had not completed at the end of the simulation

	Attained float64 // GPU-seconds
	RunTime  float64 // seconds with workers
	Resizes  int     // changes of size after the start, suspensions not counted
	Moves    int     // of workers, with the size kept

	Deadline float64

	// Fairness is the finish-time fairness of Themis: JCT relative to the JCT that the job
	// would have had alone on its share of the cluster. The share is one over the mean
	// number of jobs during its life. Above 1, the job would have been better off that way.
	Fairness float64

	History []Change // only with Config.History
}

func newJobResult(j *trace.Job) JobResult {
	return JobResult{ID: j.ID, App: j.App, Tenant: j.Tenant, Submit: j.Submit, Deadline: j.Deadline}
}

// JCT returns the job completion time: from submission to completion.
func (j *JobResult) JCT() float64 { return j.Done - j.Submit }

// Queueing returns the time in which the job had no worker: before its start, and while it
// was suspended.
func (j *JobResult) Queueing() float64 { return max(0, j.JCT()-j.RunTime) }

// Missed reports whether the job had a deadline and did not meet it.
func (j *JobResult) Missed() bool { return j.Deadline > 0 && (!j.Ended || j.Done > j.Deadline) }

// Change is a new size of a job.
type Change struct {
	Time    float64
	Workers int
	GPUs    int
}

// Usage is the state of the cluster from Time on.
type Usage struct {
	Time             float64
	Held, Capacity   int // GPUs
	Running, Waiting int // jobs
}
