// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// startTime is the time for which the slots of a new allocation may be outside the ring
// before they count as idle.
const startTime = 10 * time.Minute

// Limits of believable reports, far beyond any real training. They keep sums finite.
const (
	maxSteps       = 1e12
	maxSeconds     = 1e9
	maxSlotSeconds = 1e15
)

func within(f, most float64) bool { return f >= 0 && f <= most } // false for NaN

// Report divides the time that a job has held slots since its last report into categories.
// If the report contains no steps, the time stays unknown.
func (l *Ledger) Report(key identity.JobKey, r *Report, now time.Time) {
	s := l.Jobs[key]
	if s == nil || s.slots() == 0 {
		return
	}
	stepped, mean := r.stepped()
	if stepped == 0 {
		return
	}
	t := now.UnixMilli()
	for _, rec := range s.Allocs {
		if !rec.Ended && rec.Until < t {
			l.count(key, s, rec, t)
		}
	}
	rows := l.since(key, s, t)
	fresh := s.Total.release()
	for _, row := range rows {
		row.release()
	}
	delta := stepped - s.Stepped
	if delta < 0 { // the agents have no memory of earlier steps
		delta = stepped
	}
	s.Stepped = stepped
	gaps, failed := s.rings(r, mean, t)
	// Steps that were done again were counted twice.
	s.claim(rows, lost, failed.gap+min(failed.again, delta))
	s.claim(rows, resizing, gaps)
	s.claim(rows, productive, delta-min(failed.again, delta))
	outside := max(0, s.slots()-r.Size)
	spares := min(s.Spares, outside)
	young := min(s.young(t), outside-spares)
	start := float64(young) * float64(t-s.Reported) / 1000
	if s.Reporting {
		s.claim(rows, spare, float64(spares)*float64(t-s.Reported)/1000)
	} else {
		start = float64(fresh) / 1000
	}
	s.claim(rows, starting, start)
	s.Reporting, s.Reported = true, t
}

// stepped returns the slot-seconds of all steps, and the mean step time by size.
func (r *Report) stepped() (sum float64, mean map[int]float64) {
	mean = map[int]float64{}
	for _, p := range r.Steps {
		if p.Size < 1 || p.N < 1 || !within(p.Seconds, maxSeconds) || !within(float64(p.N), maxSteps) {
			continue
		}
		mean[p.Size] = p.Seconds
		sum = min(sum+float64(p.N)*p.Seconds*float64(p.Size), maxSlotSeconds)
	}
	return sum, mean
}

// since returns the rows of a job from the day of its last report to now, the newest first.
func (l *Ledger) since(key identity.JobKey, s *State, now int64) []*Row {
	var rows []*Row
	for day := dayOf(now); day >= max(dayOf(s.Reported), l.Closed); day-- {
		k := Key{Day: day, Pool: s.Pool, Queue: s.Queue, Namespace: key.Namespace, Job: key.ID, Kind: s.Kind}
		if row := l.Rows[k]; row != nil {
			rows = append(rows, row)
		}
		if s.Reported == 0 && day < dayOf(now)-Day(maxSilence/(24*time.Hour)) {
			break
		}
	}
	return rows
}

// maxSilence is how far back in time a job's first report applies.
const maxSilence = 30 * 24 * time.Hour

// failures holds the costs of failures, in slot-seconds.
type failures struct{ gap, again float64 }

// rings returns the slot-seconds in gaps of resizes and of failures that were not counted
// yet.
func (s *State) rings(r *Report, mean map[int]float64, now int64) (gaps float64, failed failures) {
	newest := s.LastRing
	for _, c := range r.Resizes {
		if c.Time <= s.LastRing || !within(c.Time, float64(now)/1000+24*3600) || !within(c.Gap, maxSeconds) || !within(c.Lost, maxSteps) {
			continue // each report repeats the latest resizes
		}
		newest = max(newest, c.Time)
		switch gap := c.Gap * float64(max(0, c.To)); {
		case c.Start:
		case c.Failure:
			failed.gap += gap
		default:
			gaps += gap
		}
		failed.again += c.Lost * mean[c.From] * float64(max(0, c.From))
	}
	s.LastRing = newest
	return gaps, failed
}

// young returns the slots of allocations that may still be starting.
func (s *State) young(now int64) int {
	n := 0
	for _, r := range s.Allocs {
		if !r.Ended && now-r.From < startTime.Milliseconds() {
			n += r.Slots
		}
	}
	return n
}

// claim moves slot-seconds to a category: in rows, the newest day first, and in the total.
func (s *State) claim(rows []*Row, part func(*Counts) *int64, seconds float64) {
	ms := int64(min(seconds, maxSlotSeconds) * 1000)
	s.Total.claim(part, ms)
	for _, row := range rows {
		ms -= row.claim(part, ms)
	}
}
