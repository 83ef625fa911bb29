// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Move is a move of a job's workers between its groups. It is either under way, or made
// but not measured yet.
type Move struct {
	From      map[string]int `json:"from"` // workers by group, without empty groups
	To        map[string]int `json:"to"`
	GrowFirst bool           `json:"grow_first,omitempty"`
	Queued    bool           `json:"queued,omitempty"` // others have to make room first
	Until     time.Time      `json:"until"`            // given up then
	Gain      float64        `json:"gain,omitempty"`   // expected relative decrease of step time
	Before    float64        `json:"before,omitempty"` // time of a step, seconds, when it began

	Made time.Time `json:"made,omitzero"`

	// Not saved.
	begun   bool      // its first half was seen
	missing time.Time // since when its first half is overdue
	at      StepTime  // what the training had counted at its size when the move was made
	ring    int       // that size, in slots
}

// Outcome is the measured effect of a move.
type Outcome struct {
	Before, After float64 // time of a step, seconds
	Expected      float64 // expected relative decrease of step time
	Gaps          []Gap   // of the move's two changes of the ring, as far as known
}

const (
	// moveLimit is how many moves are remembered of one job: those of an hour.
	moveLimit = 60
	// outcomeSteps is the number of steps in the mean that counts as the time after a
	// move.
	outcomeSteps = 16
	// outcomeAfter is how long to wait for a move's outcome.
	outcomeAfter = time.Hour
	// moveGrace is how long the first half of a move may stay unseen: Nomad may still carry
	// out a write that timed out.
	moveGrace = 30 * time.Second
	// moveTTL is how long a move is remembered past its deadline. A move that grew first
	// is given up with a write, and no write happens while the job is held.
	moveTTL = time.Hour
)

// BeginMove records that the first half of a move begins, or that the move waits for
// other jobs. groups are the job's groups. BeginMove returns a function that undoes the
// record.
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

// stepTimeHere returns the step time at a size: as measured at the job's current place,
// else anywhere; 0 if it is unknown.
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

// sameCounts reports whether two counts by group are the same. A missing group has no
// workers.
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

// BoundMove limits a move's deadline to timeout from now: the clock of the autoscaler that
// began the move may have been ahead.
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

// followMove records that a move is made, or forgets a move that is over: undone, too
// late, or crossed by someone else's change of the counts.
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

// half returns the number of workers of a group between the two halves of the move.
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

// begins reports whether these counts are on the way to the first half of the move.
func (m *Move) begins(counts map[string]int) bool {
	return m.each(counts, func(group string, n int) bool { return n == m.half(group) || n == m.From[group] })
}

// each reports whether ok holds for the count of every group of the job and of the move.
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

// MoveOutcome returns the effect of the last move once all workers, with the given number
// of slots each, have made enough steps after it. It returns each outcome only once.
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

// MayMove returns the earliest time for the job's next move under a limit of most moves
// within an hour; the zero time means now. It ignores moves recorded by a clock that was
// ahead.
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
