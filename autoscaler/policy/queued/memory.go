// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// state is what a Policy remembers of each queue that has jobs.
type state struct {
	Name string `json:"name"` // of the queue
	seen
	State []byte  `json:"state,omitempty"`
	Since float64 `json:"since,omitempty"` // when it began to want slots that others hold
	Owed  int     `json:"owed,omitempty"`  // slots that it has when they are back; 0 while it waits for that
}

func (s state) equal(o state) bool {
	return s.Name == o.Name && s.seen == o.seen && bytes.Equal(s.State, o.State) && s.Since == o.Since && s.Owed == o.Owed
}

// memory holds the states of all queues. It is immutable.
type memory struct {
	text   string // as in Snapshot.State
	states []state
	byName map[string]state
}

func newMemory(text string, states []state) *memory {
	m := &memory{text: text, states: states, byName: make(map[string]state, len(states))}
	for _, of := range states {
		m.byName[of.Name] = of
	}
	return m
}

// load returns what is remembered of the queues. It decodes the state of the snapshot only if
// that is neither the state that the last decision returned nor the one that it started from.
func (p *Policy) load(s *policy.Snapshot) *memory {
	for _, last := range []*atomic.Pointer[memory]{&p.saved, &p.loaded} {
		if m := last.Load(); m != nil && m.text == string(s.State) {
			p.loaded.Store(m)
			return m
		}
	}
	var states []state
	if json.Unmarshal(s.State, &states) != nil {
		states = nil // of another policy: every policy can start from nothing
	}
	m := newMemory(string(s.State), states)
	p.loaded.Store(m)
	return m
}

// save returns the states as Decision.State. before is what was remembered so far.
func (p *Policy) save(states []state, before *memory) []byte {
	if len(states) > 0 && slices.EqualFunc(states, before.states, state.equal) {
		return []byte(before.text)
	}
	text, err := json.Marshal(states)
	if err != nil {
		return nil // impossible: strings, bytes and finite numbers
	}
	p.saved.Store(newMemory(string(text), states))
	return text
}

// take returns memory for a number of jobs.
func (p *Policy) take(n int) []policy.Job {
	if jobs := p.jobs.Swap(nil); jobs != nil && cap(*jobs) >= n {
		return (*jobs)[:n]
	}
	return make([]policy.Job, n)
}

// give lets the next decision use the memory of this one.
func (p *Policy) give(jobs []policy.Job) {
	if !p.fallible {
		p.jobs.Store(&jobs)
	}
}
