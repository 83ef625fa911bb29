// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// Limits of an answer. The driver's agents report far less.
const (
	progressLimit = 1 << 20 // bytes
	stepsLimit    = 4096    // entries of step_seconds
	resizesLimit  = 1024
	allocIDLimit  = 64  // characters
	textLimit     = 256 // bytes of a text
	slotsLimit    = jobspec.MaxWorkers * jobspec.MaxDevices
)

// readProgress parses an answer and checks that its numbers are possible. Errors do
// not repeat its text, because the sender is not verified yet.
func readProgress(text []byte) (*history.Progress, error) {
	var p history.Progress
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, errors.New("the answer is not the JSON of a status")
	}
	if n := len(p.StepSeconds); n > stepsLimit {
		return nil, fmt.Errorf("step_seconds has %d entries, more than %d", n, stepsLimit)
	}
	if n := len(p.Resizes); n > resizesLimit {
		return nil, fmt.Errorf("resizes has %d entries, more than %d", n, resizesLimit)
	}
	if n := len(p.Ranks); n > slotsLimit {
		return nil, fmt.Errorf("ranks has %d entries, more than %d", n, slotsLimit)
	}
	p.Phase, p.Hold = cut(p.Phase), cut(p.Hold)
	if !slots(p.Size) {
		return nil, fmt.Errorf("size is %d", p.Size)
	}
	for _, r := range p.Ranks {
		if !slots(r.Rank) || len(r.AllocID) > allocIDLimit {
			return nil, fmt.Errorf("rank %d or its allocation ID is invalid", r.Rank)
		}
	}
	if s := p.Straggler; s != nil && (!slots(s.Rank) || len(s.AllocID) > allocIDLimit || !s.Valid()) {
		return nil, fmt.Errorf("straggler %d, its allocation ID or its numbers are invalid", s.Rank)
	}
	if a := p.Adaptive; a != nil && !a.Valid() {
		return nil, errors.New("a number of adaptive is invalid")
	}
	if s := p.Stall; s != nil {
		if !slots(s.Size) || !s.Valid() {
			return nil, errors.New("the size, the duration or the time of stall is invalid")
		}
		if s.Stacks != nil {
			s.Stacks.Bound()
		}
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

// cut returns the beginning of a text, which is only for display.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), textLimit)], "") }

func slots(n int) bool { return n >= 0 && n <= slotsLimit }

// checkSender returns an error if the answer does not come from the job's
// allocation.
func checkSender(p *history.Progress, key identity.JobKey, alloc string) error {
	switch {
	case p.Job != key.ID || p.Namespace != key.Namespace:
		return errors.New("another job answers")
	case p.AllocID != "" && p.AllocID != alloc:
		return errors.New("another allocation answers")
	}
	return nil
}
