// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Move is a move of a job's workers between its groups: under way, or made and not
// measured yet.
type Move struct {
	From      map[string]int `json:"from"` // workers by group, of groups that have any
	To        map[string]int `json:"to"`
	GrowFirst bool           `json:"grow_first,omitempty"`
	Queued    bool           `json:"queued,omitempty"` // others have to make room first
	Until     time.Time      `json:"until"`            // given up then
	Gain      float64        `json:"gain,omitempty"`   // part by which steps are expected to get faster
	Before    float64        `json:"before,omitempty"` // time of a step, seconds, when it began

	Made time.Time `json:"made,omitzero"`

	// Not saved.
	begun   bool      // its first half was seen
	missing time.Time // since when the first half is not seen
	at      StepTime  // the training's count at its size when the move was made
	ring    int       // that size, in slots
}

// Outcome is the measured effect of a move.
type Outcome struct {
	Before, After float64 // time of a step, seconds
	Expected      float64 // part by which steps were expected to get faster
	Gaps          []Gap   // of its two changes of the ring, as far as known
}

const (
	// moveLimit is how many moves of one job are kept: those of an hour.
	moveLimit = 60
	// outcomeSteps is the least number of steps in the mean time after a move.
	outcomeSteps = 16
	// outcomeAfter is how long to wait for a move's outcome.
	outcomeAfter = time.Hour
	// moveGrace is how long the first half of a move may stay unseen: after a write
	// that timed out, Nomad may still do it.
	moveGrace = 30 * time.Second
	// moveTTL is how long a move is kept after Until. It is not given up before while
	// its job is held.
	moveTTL = time.Hour
)

// BeginMove records the first half of a move of a job with these groups, or that the move
// waits for others. It returns a function that undoes this.
func (j *Job) BeginMove(m *planner.Moving, groups []planner.Group, now time.Time) (undo func()) {
	move, moves := j.Move, j.Moves
	undo = func() { j.Move, j.Moves = move, moves }
	if m == nil || len(m.From) != len(groups) || len(m.To) != len(groups) {
		return undo
	}
	out := &Move{From: map[string]int{}, To: map[string]int{}, GrowFirst: m.GrowFirst, Queued: m.Queued, Until: m.Until, Gain: m.Gain}
	n := 0
	for g := range groups {
		if m.From[g] != 0 {
			out.From[groups[g].Name] = m.From[g]
		}
		if m.To[g] != 0 {
			out.To[groups[g].Name] = m.To[g]
		}
		n += m.From[g]
	}
	out.Before = j.stepTimeHere(n)
	if j.Move == nil || !j.Move.Queued || !sameCounts(j.Move.To, out.To) {
		j.Moves = append(slices.Clone(moves[max(0, len(moves)+1-moveLimit):]), now)
	}
	j.Move = out
	return undo
}

// stepTimeHere returns the time of a step at a size: at the present placement if it was
// measured there, else at any; 0 if unknown.
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

// sameCounts reports whether two counts by group are the same. A missing group counts as
// one without workers.
func sameCounts(a, b map[string]int) bool {
	for g := range b {
		if _, both := a[g]; !both && b[g] != 0 {
			return false
		}
	}
	for g, n := range a {
		if b[g] != n {
			return false
		}
	}
	return true
}

// Moving returns the job's move if it is under way, else nil.
func (j *Job) Moving(groups []planner.Group) *planner.Moving {
	m := j.Move
	if m == nil || !m.Made.IsZero() {
		return nil
	}
	out := &planner.Moving{GrowFirst: m.GrowFirst, Queued: m.Queued, Until: m.Until, Gain: m.Gain}
	from, to := map[string]int{}, map[string]int{}
	for g := range groups {
		name := groups[g].Name
		from[name], to[name] = m.From[name], m.To[name]
		out.From, out.To = append(out.From, m.From[name]), append(out.To, m.To[name])
	}
	if !sameCounts(from, m.From) || !sameCounts(to, m.To) {
		return nil // it has workers in a group that no longer exists
	}
	return out
}

// BoundMove makes a move end within timeout from now: the clock of the leader that began it
// may have been ahead.
func (j *Job) BoundMove(now time.Time, timeout time.Duration) {
	if m := j.Move; m != nil {
		m.Until = earlier(m.Until, now.Add(timeout))
		m.Made = earlier(m.Made, now)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// followMove records that a move is made. It forgets a move that was undone, is too late, or
// was overridden by another change of the counts.
func (j *Job) followMove(counts map[string]int, now time.Time) {
	m := j.Move
	switch {
	case m == nil:
	case !m.Made.IsZero():
		if now.Sub(m.Made) > outcomeAfter || !sameCounts(counts, m.To) {
			j.Move = nil
		}
	case sameCounts(counts, m.To):
		m.Made, m.Queued = now, false
	case (m.Queued || !m.GrowFirst) && !m.Until.After(now), now.Sub(m.Until) > moveTTL:
		j.Move = nil
	case m.underway(counts):
		m.begun = true
	case m.begun || !m.begins(counts):
		j.Move = nil
	case m.missing.IsZero() || m.missing.After(now):
		m.missing = now
	case now.Sub(m.missing) >= moveGrace:
		j.Move = nil
	}
}

// half returns how many workers a group has between the halves of the move.
func (m *Move) half(group string) int {
	switch {
	case m.Queued:
		return m.From[group]
	case m.GrowFirst:
		return max(m.From[group], m.To[group])
	}
	return min(m.From[group], m.To[group])
}

// underway reports whether these counts are between the halves of the move.
func (m *Move) underway(counts map[string]int) bool {
	return m.each(counts, func(group string, n int) bool { return n == m.half(group) })
}

// begins reports whether each group has its count before or after the first half of the
// move.
func (m *Move) begins(counts map[string]int) bool {
	return m.each(counts, func(group string, n int) bool { return n == m.half(group) || n == m.From[group] })
}

// each reports whether ok is true for the counts of all groups of the job and of the move.
func (m *Move) each(counts map[string]int, ok func(group string, n int) bool) bool {
	for _, groups := range []map[string]int{counts, m.From, m.To} {
		for g := range groups {
			if !ok(g, counts[g]) {
				return false
			}
		}
	}
	return true
}

// MoveOutcome returns the effect of the last move, once all workers have made enough steps
// after it. slots is the number of slots of each worker. It returns each outcome once.
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

// MayMove returns when a job may next be moved, if it may have at most the given number of
// moves within an hour. Moves in the future, from a clock that was ahead, do not count.
func (j *Job) MayMove(most int, now time.Time) time.Time {
	var within []time.Time
	for _, at := range j.Moves {
		if until := at.Add(time.Hour); until.After(now) && !at.After(now) {
			within = append(within, until)
		}
	}
	if len(within) < most {
		return time.Time{}
	}
	slices.SortFunc(within, time.Time.Compare)
	return within[len(within)-most]
}
