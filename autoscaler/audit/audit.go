// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package audit

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/autoscaler/printable"
)

// What was done, the message of the line.
const (
	Scale       = "scale"        // a job's count
	Tag         = "tag"          // a version of a job, so that Nomad keeps it
	Untag       = "untag"        // the reverse
	Report      = "report"       // a scaling event that counts nothing
	SaveLedger  = "save-ledger"  // variables of the autoscaler's own
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
	// Who is an accessor, a workload, a user of this machine, or this agent.
	Who string
	// From is the address of the caller, and Via the agent that passed the
	// request on, as that agent says.
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

	mu      sync.Mutex
	window  time.Time // in which refusals are counted
	refused int
	left    int // out since the last line
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

// New makes a log beside another; self is what does the agent's own writes.
func New(log hclog.Logger, self string) *Log {
	return &Log{log: log.ResetNamed(name), self: self}
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

// Refused records a request that was not let in. Of a flood it records the
// first of each second, and with the next line how many are left out.
func (l *Log) Refused(e Entry) {
	if l == nil || !l.room(time.Now()) {
		return
	}
	l.write(e, "refused")
}

func (l *Log) room(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.window) >= time.Second {
		l.window, l.refused = now, 0
	}
	l.refused++
	if l.refused > refusals {
		l.left++
		return false
	}
	return true
}

// missing is how many refusals were left out since it was last called.
func (l *Log) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.left
	l.left = 0
	return n
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
	if n := l.missing(); n > 0 {
		args = append(args, "refusals_left_out", n)
	}
	args = append(args, "result", result)
	if e.Err != nil {
		args = append(args, "error", printable.Line(e.Err.Error()))
	}
	l.log.Info(e.Action, args...)
}
