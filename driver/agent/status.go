// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// maxResizes is how many resizes a status tells of.
const maxResizes = 64

// Status is what the leader knows of the job; GET /v1/status on the job's
// service returns it as JSON. Fields that the script does not report are left
// out.
type Status struct {
	Job       string `json:"job"`
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	// AllocID is the allocation that answers, which need not be the leader's.
	AllocID string `json:"alloc_id,omitempty"`
	// Leader is the leader's allocation.
	Leader string `json:"leader,omitempty"`
	// PeerAuth is how agents know each other. It is empty where there is one
	// process.
	PeerAuth string `json:"peer_auth,omitempty"`
	Term     uint64 `json:"term"`

	// Phase is waiting, forming, training, resizing or finished.
	Phase      string `json:"phase"`
	Generation uint64 `json:"generation"`
	Size       int    `json:"size"`
	Ranks      []Rank `json:"ranks"`
	Hosts      int    `json:"hosts"`
	MinNP      int    `json:"min_np"`
	MaxNP      int    `json:"max_np,omitempty"`
	Resets     int    `json:"resets"`
	// Hold says why no new ring may be formed just now.
	Hold string `json:"hold,omitempty"`

	Step       *float64 `json:"step,omitempty"`
	Samples    *float64 `json:"samples,omitempty"`
	Epoch      *float64 `json:"epoch,omitempty"`
	TotalSteps *float64 `json:"total_steps,omitempty"`
	Loss       *float64 `json:"loss,omitempty"`
	// ProgressAt is when the script last reported, in Unix seconds.
	ProgressAt float64 `json:"progress_at,omitempty"`

	// StepSeconds has the measured time of a step by ring size.
	StepSeconds map[int]StepTime `json:"step_seconds"`
	// Resizes are the latest changes of the ring, the newest last.
	Resizes []Resize `json:"resizes"`

	Complete bool   `json:"complete"`
	Outcome  string `json:"outcome,omitempty"`
	// Updated is when the status was made, in Unix seconds.
	Updated float64 `json:"updated"`
}

// Rank tells where one rank of the ring runs.
type Rank struct {
	Rank    int    `json:"rank"`
	AllocID string `json:"alloc_id,omitempty"`
	Host    string `json:"host"`
	Slot    int    `json:"slot"`
}

// StepTime is the time of one global step at one ring size.
type StepTime struct {
	Mean float64 `json:"mean"` // seconds
	N    int     `json:"n"`    // steps it was measured over
	// Samples is the mean number of samples in a step, where the script
	// reports them. It grows with the ring unless ranks share a fixed batch.
	Samples float64 `json:"samples,omitempty"`
}

// Resize is one change of the ring.
type Resize struct {
	Generation uint64 `json:"generation"`
	From       int    `json:"from"`
	To         int    `json:"to"`
	// Cause is start, resize or failure.
	Cause string `json:"cause"`
	// Gap is the time in seconds from the last step of the old ring to the
	// first step of the new one; where the script reports no steps, from the
	// first process that left the old ring to the last that joined the new.
	Gap float64 `json:"gap_seconds"`
	// Rendezvous is the part of it that Horovod took to connect.
	Rendezvous float64 `json:"rendezvous_seconds"`
	// LostSteps are steps of the old ring that were made again.
	LostSteps float64 `json:"lost_steps"`
	// Time is when the new ring was formed, in Unix seconds.
	Time float64 `json:"time"`
}

// ledger measures rings: gaps, lost steps and step times.
type ledger struct {
	open     Resize // being measured
	told     bool   // open has been added to resizes
	stopped  time.Time
	formed   time.Time
	last     Progress // of the ring before
	latest   Progress // of the present ring
	reports  bool     // the script reports steps
	resizes  []Resize
	tallies  map[int]tally // by ring size
	size     int
	counted  Progress // latest, up to which steps are in the tallies
	failures bool
}

// A tally is what was measured of the steps of rings of one size.
type tally struct {
	steps, seconds float64
	// samples are those of so many of the steps, for which they are known.
	samples, sampled float64
}

func newLedger(s *Status) *ledger {
	l := &ledger{tallies: map[int]tally{}, told: true}
	if s != nil {
		l.resizes = s.Resizes
		l.size = s.Size
		for n, t := range s.StepSeconds {
			steps := float64(t.N)
			l.tallies[n] = tally{steps: steps, seconds: t.Mean * steps}
			if t.Samples > 0 {
				l.tallies[n] = tally{steps: steps, seconds: t.Mean * steps, samples: t.Samples * steps, sampled: steps}
			}
		}
		l.latest = Progress{Generation: s.Generation, At: s.ProgressAt, Step: s.Step, Samples: s.Samples,
			Epoch: s.Epoch, TotalSteps: s.TotalSteps, Loss: s.Loss}
		l.counted = l.latest // by the leader before
		l.reports = s.Step != nil
	}
	return l
}

// leave notes that the first process left the ring.
func (l *ledger) leave(now time.Time) {
	if l.stopped.IsZero() {
		l.stopped = now
	}
}

// fail notes that the ring lost a process.
func (l *ledger) fail() { l.failures = true }

// form notes a new ring.
func (l *ledger) form(r *elastic.Ring, now time.Time) {
	cause := "resize"
	switch {
	case l.size == 0:
		cause = "start"
	case l.failures:
		cause = "failure"
	}
	l.count()
	if l.stopped.IsZero() {
		l.stopped = now
	}
	l.open = Resize{Generation: r.Generation, From: l.size, To: len(r.Members), Cause: cause, Time: seconds(now)}
	l.told, l.formed, l.failures = false, now, false
	if l.latest.At > 0 {
		l.last = l.latest
	}
	l.latest, l.counted, l.size = Progress{}, Progress{}, len(r.Members)
}

// up notes that all processes are connected, and returns the resize when it is
// measured: a script that reports steps has yet to make one.
func (l *ledger) up(now time.Time) *Resize {
	if l.told {
		return nil
	}
	l.open.Rendezvous = now.Sub(l.formed).Seconds()
	l.open.Gap = now.Sub(l.stopped).Seconds()
	if l.reports && l.last.At > 0 {
		return nil
	}
	return l.close()
}

// progress takes in what the script reports, and returns the resize when this
// completes it.
func (l *ledger) progress(p Progress) *Resize {
	l.reports = l.reports || p.Step != nil
	if p.Generation != l.open.Generation && l.open.Generation != 0 {
		if p.Generation+1 == l.open.Generation && p.At > l.last.At { // the end of the ring before
			l.last = p
		}
		return nil
	}
	if p.At < l.latest.At {
		return nil
	}
	l.latest = p
	l.count()
	if l.told || p.FirstAt == 0 {
		return nil
	}
	if l.last.At > 0 {
		l.open.Gap = max(0, p.FirstAt-l.last.At) // the clocks of two hosts may differ
		if p.First != nil && l.last.Step != nil {
			l.open.LostSteps = max(0, *l.last.Step+1-*p.First)
		}
	}
	return l.close()
}

func (l *ledger) close() *Resize {
	l.told, l.stopped = true, time.Time{}
	l.resizes = append(l.resizes, l.open)
	if n := len(l.resizes); n > maxResizes {
		l.resizes = l.resizes[n-maxResizes:]
	}
	return &l.open
}

// count adds the steps since the last call to the size's tally.
func (l *ledger) count() {
	p, from := l.latest, l.counted
	if p.Step == nil || p.First == nil || l.size == 0 {
		return
	}
	if from.Step == nil {
		from.Step, from.Samples, from.At = p.First, p.FirstSamples, p.FirstAt
	}
	if n := *p.Step - *from.Step; n > 0 && p.At > from.At {
		t := l.tallies[l.size]
		t.steps += n
		t.seconds += p.At - from.At
		if p.Samples != nil && from.Samples != nil && *p.Samples > *from.Samples {
			t.samples += *p.Samples - *from.Samples
			t.sampled += n
		}
		l.tallies[l.size], l.counted = t, p
	}
}

// newest is the last report of the present ring, or of the one before it.
func (l *ledger) newest() Progress {
	if l.latest.At > 0 {
		return l.latest
	}
	return l.last
}

func (l *ledger) stepSeconds() map[int]StepTime {
	m := map[int]StepTime{}
	for n, t := range l.tallies {
		if t.steps <= 0 {
			continue
		}
		out := StepTime{Mean: t.seconds / t.steps, N: int(t.steps)}
		if t.sampled > 0 {
			out.Samples = t.samples / t.sampled
		}
		m[n] = out
	}
	return m
}
