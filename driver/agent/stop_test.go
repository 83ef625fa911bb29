// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul-template/signals"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

func TestTimeToLeave(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	note := func(in time.Duration) string { return now.Add(in).Format(time.RFC3339Nano) }
	cases := map[string]struct {
		note string // "-": no file
		want time.Duration
	}{
		"no note":       {"-", 25 * time.Second},
		"broken note":   {"soon", 25 * time.Second},
		"short":         {note(5 * time.Second), 4 * time.Second},
		"long":          {note(time.Minute) + "\n", 58 * time.Second},
		"already over":  {note(-time.Second), 0},
		"another clock": {now.Add(10 * time.Second).In(time.FixedZone("x", 3600)).Format(time.RFC3339Nano), 8 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := Config{KillTimeout: Duration(25 * time.Second), StopFile: filepath.Join(t.TempDir(), "stop")}
			if c.note != "-" {
				must.NoError(t, os.WriteFile(config.StopFile, []byte(c.note), 0o644))
			}
			must.Eq(t, c.want, config.timeToLeave(now))
		})
	}
	must.Eq(t, 25*time.Second, (&Config{KillTimeout: Duration(25 * time.Second)}).timeToLeave(now))
}

func TestTheEarlierEndCounts(t *testing.T) {
	up, dn := newPipes()
	h := NewHost(HostOptions{Config: Config{Slots: 1}, ID: "h", Logger: hclog.NewNullLogger()})
	h.session = up
	leave := func(in time.Duration) { h.Leave(in); (<-h.todo)() }
	told := func() float64 { m, err := dn.recv(); must.NoError(t, err); return m.Leaving.In }
	leave(time.Hour) // leave_timeout, and then Nomad stops the task
	must.Eq(t, 3600, told())
	leave(time.Minute)
	must.Less(t, 30*time.Minute, time.Until(h.deadline))
	must.Eq(t, 60, told())
	leave(time.Hour)
	must.Less(t, 30*time.Minute, time.Until(h.deadline), must.Sprint("a stop is never put off"))
}

func TestSignalsDoNotEndTheAgent(t *testing.T) {
	for name, sig := range signals.SignalLookup {
		switch sig {
		case signals.SIGNULL, syscall.SIGKILL, syscall.SIGSTOP:
		case syscall.SIGPIPE: // to a Go program, one is nothing
		default:
			must.SliceContains(t, passedOn(), sig, must.Sprint(name))
		}
	}
	must.SliceNotContains(t, passedOn(), os.Signal(syscall.SIGURG), must.Sprint("Go's scheduler sends it all the time"))
}
