// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Status is the leader's view of the job. GET /v1/status on the job's service returns it
// as JSON, without fields that the script does not report.
type Status struct {
	Job       string `json:"job"`
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	// AllocID is the allocation that answers, which may not be the leader's.
	AllocID string `json:"alloc_id,omitempty"`
	// Leader is the leader's allocation.
	Leader string `json:"leader,omitempty"`
	// PeerAuth describes how agents authenticate each other. It is empty if all run in one
	// process.
	PeerAuth string `json:"peer_auth,omitempty"`
	Term     uint64 `json:"term"`

	// Phase is waiting, training, resizing or finished.
	Phase      string `json:"phase"`
	Generation uint64 `json:"generation"`
	Size       int    `json:"size"`
	Ranks      []Rank `json:"ranks"`
	// RanksKept is set only in a message of the leader. It states that Ranks and Stall.Stacks
	// are left out, because they are the same as in the session's last status.
	RanksKept bool `json:"ranks_kept,omitempty"`
	Hosts     int  `json:"hosts"`
	MinNP     int  `json:"min_np"`
	MaxNP     int  `json:"max_np,omitempty"`
	Resets    int  `json:"resets"`
	// Hold is the reason why no new ring may form now, empty if one may.
	Hold string `json:"hold,omitempty"`
	// Surplus is how many slots wait because they do not make up a whole replica.
	Surplus int `json:"surplus,omitempty"`
	// SparesReady is the number of hosts that wait outside the ring, ready to replace a lost one.
	SparesReady int `json:"spares_ready,omitempty"`
	// TakesSpares states that the job keeps as many spare hosts as the autoscaler asks for:
	// its processes can change their ring, and its agents can read the job's counts.
	TakesSpares bool `json:"takes_spares,omitempty"`
	// KeepsBatch states that the autoscaler has told the job not to adapt its batch.
	KeepsBatch bool `json:"keeps_batch,omitempty"`

	Step       *float64 `json:"step,omitempty"`
	Samples    *float64 `json:"samples,omitempty"`
	Epoch      *float64 `json:"epoch,omitempty"`
	TotalSteps *float64 `json:"total_steps,omitempty"`
	Loss       *float64 `json:"loss,omitempty"`
	// Adaptive is the batch of a script that adapts it, nil for any other script.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// ProgressAt is when the script last reported, in Unix seconds.
	ProgressAt float64 `json:"progress_at,omitempty"`
	// SteppedAt is when the last known step was made, in Unix seconds.
	SteppedAt float64 `json:"stepped_at,omitempty"`

	// StepSeconds holds the measured time of a step by ring size.
	StepSeconds map[int]StepTime `json:"step_seconds"`
	// Straggler is the rank that makes the others wait, nil if there is none or if the script
	// does not report which rank arrives last.
	Straggler *Straggler `json:"straggler,omitempty"`
	// Stall is the last stall of the job, nil if there was none.
	Stall *Stall `json:"stall,omitempty"`
	// Resizes are the latest changes of the ring, the newest last.
	Resizes []Resize `json:"resizes"`

	// Events are the latest events of the allocation that answers, the newest last.
	// There are none under Kolo's task drivers, which show them as task events.
	Events []Event `json:"events,omitempty"`

	Complete bool   `json:"complete"`
	Outcome  string `json:"outcome,omitempty"`
	// Updated is when the status was made, in Unix seconds.
	Updated float64 `json:"updated"`
}

// WithoutRanks returns the status as the leader sends it to a host that knows the ranks and
// the stacks of the last stall.
func (s *Status) WithoutRanks() *Status {
	short := *s
	short.Ranks, short.RanksKept = nil, true
	if s.Stall != nil {
		stall := *s.Stall
		stall.Stacks = nil
		short.Stall = &stall
	}
	return &short
}

// WithRanks returns the status with all that WithoutRanks has left out, if RanksKept is set.
// last is the last status of the session.
func (s *Status) WithRanks(last *Status) *Status {
	if !s.RanksKept {
		return s
	}
	whole := *s // the leader may send the same status to other hosts of this process
	whole.RanksKept, whole.Ranks = false, []Rank{}
	if last != nil {
		whole.Ranks = last.Ranks
		if s.Stall != nil && last.Stall != nil && s.Stall.Generation == last.Stall.Generation {
			whole.Stall = last.Stall
		}
	}
	return &whole
}

// Rank states where one rank of the ring runs.
type Rank struct {
	Rank    int    `json:"rank"`
	AllocID string `json:"alloc_id,omitempty"`
	Host    string `json:"host"`
	Slot    int    `json:"slot"`
}

// StepTime is the time of one global step at one ring size.
type StepTime struct {
	Mean float64 `json:"mean"` // seconds
	N    int     `json:"n"`    // number of steps that were measured
	// Samples is the mean number of samples in a step, if the script reports them. It grows
	// with the ring unless ranks share a fixed batch.
	Samples float64 `json:"samples,omitempty"`
}

// Straggler describes a rank that arrives last in most of the recent steps of its ring.
type Straggler struct {
	Rank    int    `json:"rank"`
	AllocID string `json:"alloc_id,omitempty"`
	Host    string `json:"host"`
	// Share is the part of the recent steps in which it arrived last, and Steps their number.
	Share float64 `json:"share"`
	Steps int     `json:"steps"`
	// Behind is the time in seconds by which it then arrived after the median of the other
	// ranks.
	Behind float64 `json:"behind_seconds"`
}

// Stall states that a ring has made no step for too long. It may have gone on since.
type Stall struct {
	Generation uint64  `json:"generation"`
	Size       int     `json:"size"`
	Seconds    float64 `json:"seconds"` // without a step, when the stall was noticed
	// Time is when it was noticed, in Unix seconds, 0 if a leader of an earlier version has
	// noticed it.
	Time float64 `json:"time,omitempty"`
	// Stacks is what the ranks did before the ring was broken because of stall_timeout. It is
	// nil if the ring was not broken, or no agent has answered in time.
	Stacks *stacks.Summary `json:"stacks,omitempty"`
}

// Event is an event of an allocation.
type Event struct {
	Time    float64 `json:"time"` // Unix seconds
	Message string  `json:"message"`
}

// Resize is one change of the ring.
type Resize struct {
	Generation uint64 `json:"generation"`
	From       int    `json:"from"`
	To         int    `json:"to"`
	// Cause is start, resize or failure.
	Cause string `json:"cause"`
	// Gap is the time in seconds from the last step of the old ring to the first step of
	// the new one. If the script reports no steps, it is the time from the first process
	// that left the old ring to the last that joined the new one. In that case it is nil
	// (unknown) if new processes form the ring, because they load a checkpoint first.
	Gap *float64 `json:"gap_seconds,omitempty"`
	// Rendezvous is the part of the gap in which the processes connected, nil if unknown.
	Rendezvous *float64 `json:"rendezvous_seconds,omitempty"`
	// LostSteps is the number of steps of the old ring that were repeated, nil if unknown.
	LostSteps *float64 `json:"lost_steps,omitempty"`
	// Time is when the new ring was formed, in Unix seconds.
	Time float64 `json:"time"`
}

// Seconds returns a time in Unix seconds, as in the status.
func Seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
