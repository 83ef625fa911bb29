// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package audit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// The actions. The message of a record's line in the log is its action.
const (
	Scale       = "scale"        // a change of a job's count
	Tag         = "tag"          // a tag on a version of a job, so that Nomad keeps the job
	Untag       = "untag"        // the removal of a tag
	Report      = "report"       // a scaling event without a count
	SaveHistory = "save-history" // a write of the autoscaler's own variables
	SaveUsage   = "save-usage"
	AcquireLock = "acquire-lock" // of the leader
	ReleaseLock = "release-lock"
	Pause       = "pause"
	Resume      = "resume"
	SetPolicy   = "set-policy"
	Reload      = "reload"
)

// Entry is one record of the audit log. Empty fields are omitted.
type Entry struct {
	Action string
	// Who is a token's accessor, a workload, a user of this machine, or this
	// autoscaler.
	Who string
	// From is the caller's address. Via is the autoscaler that forwarded the
	// request and the original address, as that autoscaler reports them.
	From, Via string

	Namespace, Job, Group string
	Pool, Variable        string
	Change                string // from→to
	Reason                string
	Err                   error // nil means success
}

// Log writes records. A nil Log discards them.
type Log struct {
	log  hclog.Logger
	self string

	refusals *rate.Limiter
	missing  atomic.Int64 // refusals not recorded since the last line
}

// refusals is how many refused requests per second are recorded. The rate is
// limited because anyone who reaches the API can cause a refusal.
const refusals = 10

// name is the name of the logger of records.
const name = "kolo.audit"

// Logger returns the logger of a process. Its level, and the levels of its
// subloggers, can be set as usual; they do not affect audit records.
func Logger(o *hclog.LoggerOptions) hclog.Logger {
	records, rest := *o, *o
	records.Name, records.Level = name, hclog.Info
	if rest.Mutex == nil {
		rest.Mutex = new(sync.Mutex)
	}
	records.Mutex = rest.Mutex // lines do not interleave
	own := hclog.New(&records)
	rest.SubloggerHook = func(sub hclog.Logger) hclog.Logger {
		if sub.Name() == name {
			return own
		}
		return sub
	}
	return hclog.New(&rest)
}

// New returns a log that writes records through log. self is the actor of the
// autoscaler's own writes.
func New(log hclog.Logger, self string) *Log {
	return &Log{log: log.ResetNamed(name), self: self, refusals: rate.NewLimiter(refusals, refusals)}
}

// Write records an action and its result.
func (l *Log) Write(e Entry) {
	if l == nil {
		return
	}
	result := "ok"
	if e.Err != nil {
		result = "error"
	}
	l.write(e, result)
}

// Refused records a refused request. It records only a few refusals per second; the
// next line states how many were omitted.
func (l *Log) Refused(e Entry) {
	if l == nil || !l.allow(time.Now()) {
		return
	}
	l.write(e, "refused")
}

func (l *Log) allow(now time.Time) bool {
	if l.refusals.AllowN(now, 1) {
		return true
	}
	l.missing.Add(1)
	return false
}

func (l *Log) write(e Entry, result string) {
	if e.Who == "" {
		e.Who = l.self
	}
	args := []any{"who", printable.Line(e.Who)}
	for _, f := range []struct{ name, value string }{
		{"from", e.From}, {"via", e.Via}, {"namespace", e.Namespace}, {"job", e.Job}, {"group", e.Group}, {"pool", e.Pool},
		{"variable", e.Variable}, {"change", e.Change}, {"reason", e.Reason},
	} {
		if f.value != "" {
			args = append(args, f.name, printable.Line(f.value))
		}
	}
	if n := l.missing.Swap(0); n > 0 {
		args = append(args, "refusals_left_out", n)
	}
	args = append(args, "result", result)
	if e.Err != nil {
		args = append(args, "error", printable.Line(e.Err.Error()))
	}
	l.log.Info(e.Action, args...)
}
