// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Status is the answer to GET /v1/status: the autoscaler, its node pools and all
// elastic jobs. It is immutable once published.
type Status struct {
	Time       time.Time       `json:"time"`
	Autoscaler string          `json:"autoscaler"`       // name of the autoscaler that answers
	Replay     bool            `json:"replay,omitempty"` // a recorded answer, from kolo replay
	Leading    bool            `json:"leading"`
	Leader     Leader          `json:"leader,omitzero"`   // as last looked up
	Ready      bool            `json:"ready"`             // the cluster's state has been read
	Problem    string          `json:"problem,omitempty"` // why Nomad could not be read
	Paused     bool            `json:"paused,omitempty"`
	Pools      []PoolStatus    `json:"pools"`
	Jobs       []JobStatus     `json:"jobs"`
	Ineligible []IneligibleJob `json:"ineligible,omitempty"`
	Blocked    []BlockedJob    `json:"blocked,omitempty"`
}

// Leader is the autoscaler that leads.
type Leader struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of its HTTP API, "" is unknown
}

// PoolStatus is one node pool.
type PoolStatus struct {
	Name     string `json:"name"`
	Policy   string `json:"policy"`
	Capacity int    `json:"capacity"` // slots for elastic jobs
	Used     int    `json:"used"`
	Waiting  int    `json:"waiting"`            // jobs with no workers
	Reserved int    `json:"reserved,omitempty"` // slots kept free for jobs that are not elastic
	Spares   int    `json:"spares,omitempty"`   // of Used, slots of spares
	Lends    int    `json:"lends,omitempty"`    // slots that the pool lends as spares at most
	Problem  string `json:"problem,omitempty"`  // of the policy; the last good decision stays in force

	// Queues holds the operator's limits on what jobs may request.
	Queues []QueueStatus `json:"queues,omitempty"`

	// Use is what jobs hold by queue. The last one, "*", has the jobs in no queue.
	Use []QueueUse `json:"use,omitempty"`

	// Only set if this autoscaler leads: the slots that jobs lack, by level, and the
	// classes of the pool's nodes.
	Lacks []Lack      `json:"lacks,omitempty"`
	Nodes []NodeClass `json:"nodes,omitempty"`
}

// Lack states how many more slots jobs would use if there were room, in addition to the
// slots that they hold or are about to get.
type Lack struct {
	Slots int    `json:"slots"`
	Level string `json:"level,omitempty"` // level within which the jobs must stay, "" for none
}

// NodeClass holds the nodes of one class in a pool, and how many more nodes jobs could
// use.
type NodeClass struct {
	Class   string `json:"class"` // Nomad's node_class, may be ""
	Nodes   int    `json:"nodes"` // that accept workers
	Idle    int    `json:"idle"`  // of these, without a worker
	Waiting int    `json:"waiting,omitempty"`
	Growing int    `json:"growing,omitempty"` // in addition to those for waiting jobs
}

// QueueStatus is the operator's rule for a queue. The rule named "*" applies to all
// queues without a rule of their own.
type QueueStatus struct {
	Name        string   `json:"name"`
	Namespaces  []string `json:"namespaces,omitzero"` // that may use it; absent means all
	MaxPriority int      `json:"max_priority,omitempty"`
	MaxWeight   float64  `json:"max_weight,omitempty"`

	// Of a pool that is divided between its queues; absent is no limit.
	Parent        string           `json:"parent,omitempty"`
	Guarantee     int              `json:"guarantee,omitempty"`
	Limit         int              `json:"limit,omitempty"`
	Weight        float64          `json:"weight,omitempty"` // absent is 1
	MaxJob        int              `json:"max_job,omitempty"`
	MaxJobs       int              `json:"max_jobs,omitempty"`
	MaxTime       float64          `json:"max_time,omitempty"`        // seconds
	MaxTimeAction string           `json:"max_time_action,omitempty"` // absent is requeue
	ReclaimAfter  float64          `json:"reclaim_after,omitempty"`   // seconds
	Order         string           `json:"order,omitempty"`           // absent is that of the queue around it
	PerNamespace  *NamespaceStatus `json:"per_namespace,omitempty"`
	Policy        string           `json:"policy,omitempty"`    // absent is that of the queue around it
	HalfLife      float64          `json:"half_life,omitempty"` // seconds
}

// QueueUse states how many slots the jobs of a queue hold, and how many of the jobs
// wait. Jobs of queues inside it count, too.
type QueueUse struct {
	Queue    string `json:"queue"`
	Used     int    `json:"used"`               // slots
	Borrowed int    `json:"borrowed,omitempty"` // of these, slots beyond the guarantee, if the pool is divided
	Waiting  int    `json:"waiting"`            // jobs with no workers

	// Reasons counts the waiting jobs by reason. In a divided pool, Entitled is the number of
	// slots that the queue's jobs may hold now, at most as many as they can use. Lent is the
	// part of its guarantee that it does not use while another queue borrows.
	Reasons  map[waiting.Reason]int `json:"reasons,omitempty"`
	Entitled *int                   `json:"entitled,omitempty"`
	Lent     int                    `json:"lent,omitempty"`

	// Only the leader sets these fields: the slot-hours that the queue borrowed, decayed by
	// its half-life, and its budget. Each is absent if the queue has no half-life or no
	// budget.
	Decayed *float64   `json:"decayed,omitempty"`
	Budget  *BudgetUse `json:"budget,omitempty"`
}

// BudgetUse holds the budget of a queue, and how much of it is used in the present period.
type BudgetUse struct {
	SlotHours float64   `json:"slot_hours"`
	Used      float64   `json:"used"`   // slot-hours
	Per       string    `json:"per"`    // day, week or month
	Beyond    string    `json:"beyond"` // borrow or stop
	Until     time.Time `json:"until"`  // the end of the period
}

// NamespaceStatus holds the limits of each namespace of a queue. A field is absent if
// there is no limit.
type NamespaceStatus struct {
	Limit   int `json:"limit,omitempty"`
	MaxJob  int `json:"max_job,omitempty"`
	MaxJobs int `json:"max_jobs,omitempty"`
}

// JobStatus is the status of one elastic job.
type JobStatus struct {
	identity.JobKey
	Pool       string    `json:"pool"`
	Queue      string    `json:"queue"`
	Tenant     string    `json:"tenant,omitempty"` // that the job counts for; absent from older autoscalers
	State      string    `json:"state"`            // waiting, running, suspended, complete, held
	Count      int       `json:"count"`            // as written in the job, without spares
	Spares     int       `json:"spares,omitempty"` // workers beyond Count, outside the ring, ready to replace a lost one
	Running    int       `json:"running"`
	Want       int       `json:"want"` // what the policy wants
	Min        int       `json:"min"`
	Max        int       `json:"max"`
	Reason     string    `json:"reason,omitempty"`      // the policy's
	HoldReason string    `json:"hold_reason,omitempty"` // why the count differs from the wanted one
	HoldUntil  time.Time `json:"hold_until,omitzero"`
	Seen       time.Time `json:"seen"`
	Started    time.Time `json:"started,omitzero"`
	Completed  time.Time `json:"completed,omitzero"`
	Attained   float64   `json:"attained"` // slot-seconds
	Resizes    int       `json:"resizes"`
	Step       float64   `json:"step,omitempty"` // as last reported
	Total      float64   `json:"total,omitempty"`
	Progress   float64   `json:"progress,omitempty"` // part of the work that is done, 1 once the job is complete
	Loss       *float64  `json:"loss,omitempty"`
	ETA        time.Time `json:"eta,omitzero"`
	// Remaining describes the remaining work. It is absent if that is unknown, or if the job is
	// complete.
	Remaining *Remaining `json:"remaining,omitempty"`
	Size      int        `json:"size,omitempty"`       // slots in the ring
	LostSteps *float64   `json:"lost_steps,omitempty"` // nil if unknown for some resize

	Gaps []history.Gap `json:"gaps,omitempty"` // newest last

	// Requests is what the job requests in addition to Min and Max, limited to what the
	// operator's rules grant. Notes lists the limits that applied.
	Requests Requests `json:"requests"`
	Notes    []string `json:"notes,omitempty"`

	// Usage is what the job has used so far. Only the leader sets it, until an hour after
	// the job's end.
	Usage *Usage `json:"usage,omitempty"`

	// StepTimes holds the measured step times by number of workers.
	StepTimes []speedup.Point `json:"step_times,omitempty"`

	// Spread is how far apart the workers are and the cost of that, in a pool with a
	// topology.
	Spread *Spread `json:"spread,omitempty"`

	Waits *Waits `json:"waits,omitempty"` // absent if the job has workers or is complete

	// Idle is the number of seconds for which an idle job has not used its slots: since its
	// last step, or since its GPUs were last in use. It is absent for a job that is not
	// idle. IdleBy states which of the two it is.
	Idle   float64 `json:"idle,omitempty"`
	IdleBy string  `json:"idle_by,omitempty"`

	// Hangs is the number of seconds for which a job that hangs has made no step: its training
	// answers, but has made no step for a minute and for ten times its step time. It is absent
	// for other jobs, and while the step time is unknown.
	Hangs float64 `json:"hangs,omitempty"`

	Straggler *Straggler `json:"straggler,omitempty"` // absent if no rank makes the others wait

	Adaptive *Adaptive `json:"adaptive,omitempty"` // absent unless the training adapts its batch

	WriteError string `json:"write_error,omitempty"` // of the last write, if it failed

	Lacks *Lack `json:"lacks,omitempty"` // only from the leader; absent if the job lacks nothing
}

// Waits states why a job without workers waits, and in which queue.
type Waits struct {
	Reason   waiting.Reason `json:"reason"`
	Sentence string         `json:"sentence"`
	Queue    string         `json:"queue"`              // of the configuration; "*" is none of them
	Position int            `json:"position,omitempty"` // from 1; absent if it is in no queue
	Slots    int            `json:"slots"`              // that it needs at least
	Since    time.Time      `json:"since"`

	// Expected is absent if there is no forecast yet, and if the job waits for a reason
	// that forecasts do not take into account.
	Expected *Expected `json:"expected_start,omitempty"`
}

// Expected states when a waiting job is expected to start.
type Expected struct {
	Earliest time.Time `json:"earliest,omitzero"` // absent if nothing is known
	Latest   time.Time `json:"latest,omitzero"`   // absent if there is only a bound from below
	Made     time.Time `json:"made"`
	Unknown  string    `json:"unknown,omitempty"` // why Latest is absent
}

// Spread is how far apart the workers of a job are. Level and Domains are absent if all
// workers are in one domain of the innermost level.
type Spread struct {
	Workers int `json:"workers"` // 0 while some have no place, or are stopping
	migrate.Crossing
	Costs []CrossingCost `json:"costs,omitempty"` // as far as measured
}

// CrossingCost is the effect of the distance between workers on the step time, for one
// number of workers.
type CrossingCost struct {
	Size int `json:"size"` // workers
	SpreadTime
	Than     SpreadTime `json:"than"`              // the measured case with the workers closest together
	Slowdown float64    `json:"slowdown"`          // step time as a multiple of that in Than
	OfKind   bool       `json:"of_kind,omitempty"` // measured on other jobs of the kind
}

// SpreadTime is the step time at one distance between workers.
type SpreadTime struct {
	migrate.Crossing
	StepTime float64 `json:"step_time,omitempty"` // seconds, absent if OfKind is set
}

// Requests holds the settings of a job's kolo block, including defaults.
type Requests struct {
	Kind      string    `json:"kind,omitempty"`
	Preferred int       `json:"preferred"`
	Spare     int       `json:"spare,omitempty"` // spares that it has if no one needs their slots
	Sizes     sizes.Set `json:"sizes,omitzero"`  // allowed sizes; absent means all
	Slots     int       `json:"slots"`           // of one worker or, with a ratio, of one unit
	// Ratio is the number of workers of each group in one unit, if the groups scale together.
	Ratio       map[string]int `json:"ratio,omitempty"`
	Weight      float64        `json:"weight"`
	Priority    int            `json:"priority"`
	Preemptible bool           `json:"preemptible"`
	Deadline    time.Time      `json:"deadline,omitzero"`
}

// Key returns namespace/id.
func (j *JobStatus) Key() string { return j.Namespace + "/" + j.ID }

// Slots returns the number of slots of the workers that exist. With a ratio, it counts the
// slots of a unit evenly for its workers.
func (j *JobStatus) Slots() int {
	unit := 0
	for _, n := range j.Requests.Ratio {
		unit += n
	}
	return j.Running * j.Requests.Slots / max(1, unit)
}

// BlockedJob is a job without a kolo block that waits in Nomad for slots.
type BlockedJob struct {
	identity.JobKey
	Pool     string         `json:"pool"`
	Queue    string         `json:"queue,omitempty"` // of a pool that is divided; absent is none
	Workers  int            `json:"workers"`         // without a place
	Slots    int            `json:"slots"`           // that these need
	Room     int            `json:"room,omitempty"`  // of these, slots that elastic jobs keep free for it
	Reason   waiting.Reason `json:"reason"`
	Sentence string         `json:"sentence"`
}

// IneligibleJob is a job with a kolo block that is not scaled, because the block has errors
// or scaling is switched off.
type IneligibleJob struct {
	identity.JobKey
	Count    int      `json:"count"`
	Off      bool     `json:"off,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// States of a job.
const (
	StateWaiting   = "waiting"
	StateRunning   = "running"
	StateSuspended = "suspended"
	StateComplete  = "complete"
	StateHeld      = "held" // stopped, paused, failed, suspended because it was idle
)

// What shows that a job is idle.
const (
	IdleBySteps = "steps" // its training answers, and makes none
	IdleByGPUs  = "gpus"  // its training does not answer, and its GPUs are not used
)
