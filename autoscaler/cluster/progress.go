// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Progress is what the driver's agents tell of a job's training.
type Progress struct {
	// Who answers. Agents of older versions do not say their allocation.
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	AllocID   string `json:"alloc_id"`

	Size        int                 `json:"size"` // slots training together
	Step        float64             `json:"step"`
	Samples     float64             `json:"samples"`
	TotalSteps  float64             `json:"total_steps"`
	Loss        *float64            `json:"loss"`
	StepSeconds map[string]StepTime `json:"step_seconds"` // by size
	Resizes     []Resize            `json:"resizes"`
	Complete    bool                `json:"complete"`
}

// StepTime is the measured time of one global step at one size.
type StepTime struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
	// Samples is how many samples such a step takes, 0 where the script does
	// not tell.
	Samples float64 `json:"samples"`
}

// Resize is one change of the ring as the workers saw it.
type Resize struct {
	From       int     `json:"from"`
	To         int     `json:"to"`
	Cause      string  `json:"cause"` // start, resize, failure
	GapSeconds float64 `json:"gap_seconds"`
	LostSteps  float64 `json:"lost_steps"`
	Time       float64 `json:"time"` // Unix seconds at which the new ring was formed
}

// Bounds of an answer. The driver's agents report far less.
const (
	progressLimit = 1 << 20 // bytes
	stepsLimit    = 4096    // entries of step_seconds
	resizesLimit  = 1024
	slotsLimit    = jobspec.MaxWorkers * jobspec.MaxDevices
)

// readProgress reads an answer and checks that its numbers may be. Its text is
// repeated to no one: whoever answers is not known yet.
func readProgress(text []byte) (*Progress, error) {
	var p Progress
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, errors.New("the answer is not the JSON of a status")
	}
	if n := len(p.StepSeconds); n > stepsLimit {
		return nil, fmt.Errorf("step_seconds has %d entries, more than %d", n, stepsLimit)
	}
	if n := len(p.Resizes); n > resizesLimit {
		return nil, fmt.Errorf("resizes has %d entries, more than %d", n, resizesLimit)
	}
	if !slots(p.Size) {
		return nil, fmt.Errorf("size is %d", p.Size)
	}
	for _, r := range p.Resizes {
		if !slots(r.From) || !slots(r.To) {
			return nil, fmt.Errorf("a resize from %d to %d slots", r.From, r.To)
		}
	}
	if p.Loss != nil && math.Abs(*p.Loss) > math.MaxFloat32 {
		p.Loss = nil // diverged
	}
	return &p, nil
}

func slots(n int) bool { return n >= 0 && n <= slotsLimit }

// of returns an error where the answer is not that of the job's allocation.
func (p *Progress) of(key planner.JobKey, alloc string) error {
	switch {
	case p.Job != key.ID || p.Namespace != key.Namespace:
		return errors.New("another job answers")
	case p.AllocID != "" && p.AllocID != alloc:
		return errors.New("another allocation answers")
	}
	return nil
}
