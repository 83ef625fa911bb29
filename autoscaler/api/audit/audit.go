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

// What was done, the message of the line.
const (
	Scale       = "scale"        // a job's count
	Tag         = "tag"          // a version of a job, so that Nomad keeps it
	Untag       = "untag"        // the reverse
	Report      = "report"       // a scaling event that counts nothing
	SaveHistory = "save-history" // variables of the autoscaler's own
	AcquireLock = "acquire-lock" // the leader's
	ReleaseLock = "release-lock"
	Pause       = "pause"
	Resume      = "resume"
	SetPolicy   = "set-policy"
	Reload      = "reload"
)

// Entry is one record. Empty fields are left out.
type Entry struct {
	Action string
	// Who is an accessor, a workload, a user of this machine, or this autoscaler.
	Who string
	// From is the address of the caller, and Via the autoscaler that passed the
	// request on, as that autoscaler reports.
	From, Via string

	Namespace, Job, Group string
	Pool, Variable        string
	Change                string // from→to
	Reason                string
	Err                   error // nil is success
}

// Log writes records. A nil Log writes none.
type Log struct {
	log  hclog.Logger
	self string

	refusals *rate.Limiter
	missing  atomic.Int64 // refusals that were left out since the last line
}

// refusals is how many refused requests a second are recorded: anyone who
// reaches the API can cause one.
const refusals = 10

// name is that of the records' logger.
const name = "kolo.audit"

// Logger makes the logger of a process. Its level, and those of the loggers that
// are made of it, can be set as with any; the records are not subject to it.
func Logger(o *hclog.LoggerOptions) hclog.Logger {
	records, rest := *o, *o
	records.Name, records.Level = name, hclog.Info
	if rest.Mutex == nil {
		rest.Mutex = new(sync.Mutex)
	}
	records.Mutex = rest.Mutex // lines do not mix
	own := hclog.New(&records)
	rest.SubloggerHook = func(sub hclog.Logger) hclog.Logger {
		if sub.Name() == name {
			return own
		}
		return sub
	}
	return hclog.New(&rest)
}

// New returns a log next to another; self is what does the autoscaler's own writes.
func New(log hclog.Logger, self string) *Log {
	return &Log{log: log.ResetNamed(name), self: self, refusals: rate.NewLimiter(refusals, refusals)}
}

// Write records what was done, or failed.
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

// Refused records a request that was refused. Of a flood it records a few per
// second, and with the next line how many are left out.
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
