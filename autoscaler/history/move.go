// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Move is a move of a job's workers between its groups: under way, or made and not
// measured yet.
type Move struct {
	From      map[string]int `json:"from"` // workers by group
	To        map[string]int `json:"to"`
	GrowFirst bool           `json:"grow_first,omitempty"`
	Queued    bool           `json:"queued,omitempty"` // others have to make room first
	Until     time.Time      `json:"until"`            // given up then
	Gain      float64        `json:"gain,omitempty"`   // by which part steps are expected to get faster
	Before    float64        `json:"before,omitempty"` // time of a step, seconds, when it began

	Made time.Time `json:"made,omitzero"`
	at   StepTime  // what the training had counted at its size by then; not saved
	ring int       // that size, in slots
}

// Outcome is what a move really did.
type Outcome struct {
	Before, After float64 // time of a step, seconds
	Expected      float64 // by which part it was to get faster
	Gaps          []Gap   // of its two changes of the ring, as far as they are known
}

const (
	// moveLimit is how many moves are remembered of one job: those of an hour.
	moveLimit = 60
	// outcomeSteps is of how many steps the time after a move is the mean.
	outcomeSteps = 16
	// outcomeAfter is how long a move's outcome is waited for.
	outcomeAfter = time.Hour
)

// BeginMove notes the first half of a move of a job with these groups, or that it
// waits for others. It returns what takes that back.
func (j *Job) BeginMove(m *planner.Moving, groups []planner.Group, now time.Time) (undo func()) {
	move, moves := j.Move, j.Moves
	undo = func() { j.Move, j.Moves = move, moves }
	if m == nil || len(m.From) != len(groups) || len(m.To) != len(groups) {
		return undo
	}
	out := &Move{From: map[string]int{}, To: map[string]int{}, GrowFirst: m.GrowFirst, Queued: m.Queued, Until: m.Until, Gain: m.Gain}
	n := 0
	for g := range groups {
		out.From[groups[g].Name], out.To[groups[g].Name] = m.From[g], m.To[g]
		n += m.From[g]
	}
	out.Before = j.stepTimeHere(n)
	if j.Move == nil || !j.Move.Queued || !maps.Equal(j.Move.To, out.To) {
		j.Moves = append(slices.Clone(moves[max(0, len(moves)+1-moveLimit):]), now)
	}
	j.Move = out
	return undo
}

// stepTimeHere is the time of a step at a size, where the job is now if it was
// measured there; 0 where it is unknown.
func (j *Job) stepTimeHere(size int) float64 {
	for i := range j.Placed {
		if p := &j.Placed[i]; p.Size == size && p.Crossing == j.settled.Crossing && p.StepTime > 0 {
			return p.StepTime
		}
	}
	for _, p := range j.Points() {
		if p.Size == size {
			return p.StepTime
		}
	}
	return 0
}

// Moving is the job's move where it is under way, else nil.
func (j *Job) Moving(groups []planner.Group) *planner.Moving {
	m := j.Move
	if m == nil || !m.Made.IsZero() || len(m.To) != len(groups) {
		return nil
	}
	out := &planner.Moving{GrowFirst: m.GrowFirst, Queued: m.Queued, Until: m.Until, Gain: m.Gain}
	for g := range groups {
		from, known := m.From[groups[g].Name]
		if !known {
			return nil
		}
		out.From, out.To = append(out.From, from), append(out.To, m.To[groups[g].Name])
	}
	return out
}

// followMove notes that a move is made, or forgets one that is over: undone, too
// late, or crossed by another's change of the counts.
func (j *Job) followMove(counts map[string]int, now time.Time) {
	m := j.Move
	switch {
	case m == nil:
	case !m.Made.IsZero():
		if now.Sub(m.Made) > outcomeAfter || !maps.Equal(counts, m.To) {
			j.Move = nil
		}
	case maps.Equal(counts, m.To):
		m.Made, m.Queued = now, false
	case !m.underway(counts), (m.Queued || !m.GrowFirst) && !m.Until.After(now):
		j.Move = nil
	}
}

// underway reports whether these counts are between the halves of the move.
func (m *Move) underway(counts map[string]int) bool {
	if len(counts) != len(m.To) {
		return false
	}
	for g, n := range counts {
		half := min(m.From[g], m.To[g])
		switch {
		case m.Queued:
			half = m.From[g]
		case m.GrowFirst:
			half = max(m.From[g], m.To[g])
		}
		if n != half {
			return false
		}
	}
	return true
}

// MoveOutcome is what the last move did, once enough steps were made after it by all
// workers, of so many slots each; it is told once.
func (j *Job) MoveOutcome(p *Progress, slots int) (Outcome, bool) {
	m := j.Move
	if m == nil || m.Made.IsZero() {
		return Outcome{}, false
	}
	workers := 0
	for _, n := range m.To {
		workers += n
	}
	if p.Size != workers*slots {
		m.ring = 0 // old ones are leaving, or new ones have not joined yet
		return Outcome{}, false
	}
	now := p.StepSeconds[strconv.Itoa(p.Size)]
	if m.ring != p.Size || now.N < m.at.N {
		m.ring, m.at = p.Size, now
		return Outcome{}, false
	}
	counted := Measurement{Counted: m.at.N, last: m.at}
	fresh := counted.since(now)
	if fresh.N < outcomeSteps {
		return Outcome{}, false
	}
	after, ok := fresh.step(j.Batch)
	if !ok {
		return Outcome{}, false
	}
	j.Move = nil
	return Outcome{Before: m.Before, After: after, Expected: m.Gain, Gaps: j.Gaps[max(0, len(j.Gaps)-2):]}, true
}

// MayMove is when a job may next be moved that moves so often at most within an
// hour.
func (j *Job) MayMove(most int, now time.Time) time.Time {
	var within []time.Time
	for _, at := range j.Moves {
		if until := at.Add(time.Hour); until.After(now) {
			within = append(within, until)
		}
	}
	if len(within) < most {
		return time.Time{}
	}
	return within[len(within)-most]
}
