// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"hash/fnv"
	"iter"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// margin is how long the records of ended allocations are kept. An allocation without a
// record is counted from its start, but at most from this long before the last account. So
// Nomad may report an allocation this late.
const margin = time.Hour

// Shards is the number of shards: the parts in which a ledger is saved.
const Shards = 64

// Shard returns the number of the shard that contains the state and the rows of a
// job.
func Shard(key identity.JobKey) int {
	h := fnv.New32a()
	h.Write([]byte(key.Namespace + "\x00" + key.ID)) // does not fail
	return int(h.Sum32() % Shards)
}

// Ledger is the account of all jobs since the last archived day. It is not safe for
// concurrent use.
type Ledger struct {
	// Floors contains, for each shard, the time from which allocations without a record are
	// counted, in Unix milliseconds.
	Floors [Shards]int64
	// Closed is the first day that is not archived. Use before it is no longer counted.
	Closed Day
	Jobs   map[identity.JobKey]*State
	Rows   map[Key]*Row
}

// State holds what the ledger remembers of a job, in addition to its rows.
type State struct {
	Pool  string `json:"pool,omitempty"`
	Queue string `json:"queue,omitempty"`
	Kind  string `json:"kind,omitempty"`
	// Total contains the amounts since the state was created.
	Total  Counts             `json:"t,omitzero"`
	Allocs map[string]*Record `json:"al,omitempty"`

	WaitedUntil int64 `json:"wu,omitempty"`  // while it waits: until when that was counted
	Ran         int64 `json:"ran,omitempty"` // when it last held slots
	Suspended   bool  `json:"su,omitempty"`
	Spares      int   `json:"sp,omitempty"` // Job.Spares when last seen
	Resizes     int   `json:"rs,omitempty"` // Job.Resizes when last seen

	Reporting bool    `json:"kn,omitempty"` // it reports its steps since it last started
	Reported  int64   `json:"ra,omitempty"` // when it last did
	Stepped   float64 `json:"st,omitempty"` // slot-seconds in steps, as last reported
	LastRing  float64 `json:"lr,omitempty"` // time of the last resize that was counted, in Unix seconds
}

// Record states which part of an allocation's time was counted.
type Record struct {
	Slots int   `json:"n"`
	From  int64 `json:"a"` // Unix milliseconds
	Until int64 `json:"z"`
	Ended bool  `json:"e,omitempty"`
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{Jobs: map[identity.JobKey]*State{}, Rows: map[Key]*Row{}} }

// Account counts the slots that jobs have held, and the time for which they have waited, up
// to now.
func (l *Ledger) Account(now time.Time, jobs []Job, allocs iter.Seq[Alloc]) {
	t := now.UnixMilli()
	known := make(map[identity.JobKey]*Job, len(jobs))
	for i := range jobs {
		known[jobs[i].Key] = &jobs[i]
	}
	for a := range allocs {
		l.alloc(&a, known[a.Job], t)
	}
	for i := range jobs {
		l.job(&jobs[i], t)
	}
	for i := range l.Floors {
		l.Floors[i] = max(l.Floors[i], now.Add(-margin).UnixMilli())
	}
	l.forget(known)
}

// state returns the state of a job, and creates it if there is none.
func (l *Ledger) state(j *Job) *State {
	s := l.Jobs[j.Key]
	if s == nil {
		s = &State{Allocs: map[string]*Record{}, Resizes: j.Resizes}
		l.Jobs[j.Key] = s
	}
	s.update(j)
	return s
}

// update copies the job's pool, queue and kind. A stopped job no longer has a kind and a
// queue, so the old ones stay.
func (s *State) update(j *Job) {
	if j.End != Stopped || s.Pool == "" {
		s.Pool, s.Queue, s.Kind = j.Pool, j.Queue, j.Kind
	}
}

func (l *Ledger) alloc(a *Alloc, j *Job, now int64) {
	s := l.Jobs[a.Job]
	var r *Record
	if s != nil {
		r = s.Allocs[a.ID]
	}
	end := now
	if !a.Ended.IsZero() {
		end = min(end, a.Ended.UnixMilli())
	}
	if r == nil {
		from := max(a.Created.UnixMilli(), l.Floors[Shard(a.Job)])
		if j == nil || a.Slots < 1 || from >= end {
			return
		}
		s = l.state(j)
		r = &Record{Slots: a.Slots, From: from, Until: from}
		s.Allocs[a.ID] = r
	}
	if r.Ended { // later changes of an allocation are not about its end
		end = min(end, r.Until)
	}
	if end = max(end, r.From); !a.Ended.IsZero() {
		if day := dayOf(end); !r.Ended && a.Failed && day >= l.Closed {
			l.row(a.Job, s, day).Failures++
			s.Total.Failures++
		}
		r.Ended = true
	}
	l.count(a.Job, s, r, end)
	s.Ran = max(s.Ran, r.Until)
}

// count counts a record up to a time, or takes back what was counted after it.
func (l *Ledger) count(key identity.JobKey, s *State, r *Record, until int64) {
	for p := range l.pieces(min(r.Until, until), max(r.Until, until)) {
		ms := (p.to - p.from) * int64(r.Slots)
		row := l.row(key, s, dayOf(p.from))
		if until < r.Until {
			row.unhold(ms)
			s.Total.unhold(ms)
			continue
		}
		row.hold(ms)
		row.span(p.from, p.to)
		s.Total.hold(ms)
	}
	r.Until = until
}

type piece struct{ from, to int64 }

// pieces returns the part of a period in days that are not archived, day by day.
func (l *Ledger) pieces(from, to int64) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for from = max(from, l.Closed.millis()); from < to; {
			end := min(to, (dayOf(from) + 1).millis())
			if !yield(piece{from, end}) {
				return
			}
			from = end
		}
	}
}

// row returns the row of a job on a day.
func (l *Ledger) row(key identity.JobKey, s *State, day Day) *Row {
	k := Key{Day: day, Pool: s.Pool, Queue: s.Queue, Namespace: key.Namespace, Job: key.ID, Kind: s.Kind}
	r := l.Rows[k]
	if r == nil {
		r = &Row{Key: k}
		l.Rows[k] = r
	}
	return r
}

// job counts how long a job waited, and what happened to it.
func (l *Ledger) job(j *Job, now int64) {
	s := l.Jobs[j.Key]
	if s == nil && !j.Waiting {
		return
	}
	if s == nil {
		s = l.state(j)
		s.WaitedUntil = max(min(j.Since.UnixMilli(), now), l.Floors[Shard(j.Key)])
	}
	s.update(j)
	today := max(dayOf(now), l.Closed)
	if n := j.Resizes - s.Resizes; n > 0 {
		l.row(j.Key, s, today).Resizes += n
		s.Total.Resizes += n
	}
	s.Resizes = j.Resizes
	if j.Suspended && !s.Suspended {
		l.row(j.Key, s, today).Evictions++
		s.Total.Evictions++
	}
	s.Suspended, s.Spares = j.Suspended, j.Spares
	if j.Waiting {
		if s.WaitedUntil == 0 {
			s.WaitedUntil = now
		}
		for p := range l.pieces(max(s.WaitedUntil, s.Ran), now) {
			l.row(j.Key, s, dayOf(p.from)).Waiting += p.to - p.from
			s.Total.Waiting += p.to - p.from
		}
		s.WaitedUntil = now
	} else {
		s.WaitedUntil = 0
	}
	if s.slots() == 0 {
		s.Reporting, s.Stepped = false, 0 // its next start begins with new agents
		if j.End != "" && s.Ran > 0 {
			if day := dayOf(s.Ran - 1); day >= l.Closed {
				l.row(j.Key, s, day).End = j.End
			}
		}
	}
}

// slots returns the slots that a job holds.
func (s *State) slots() int {
	n := 0
	for _, r := range s.Allocs {
		if !r.Ended {
			n += r.Slots
		}
	}
	return n
}

// forget drops records and states that can no longer change anything. A record that is not
// ended is dropped if its job is gone and it was not counted for the margin: Nomad no longer
// has the allocation.
func (l *Ledger) forget(known map[identity.JobKey]*Job) {
	for key, s := range l.Jobs {
		floor := l.Floors[Shard(key)]
		for id, r := range s.Allocs {
			if r.Until < floor {
				delete(s.Allocs, id)
			}
		}
		if j := known[key]; len(s.Allocs) == 0 && s.Ran < floor && (j == nil || !j.Waiting) {
			delete(l.Jobs, key)
		}
	}
}
