// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// inBrokenRing returns a host with a process in a ring that broke.
func inBrokenRing(t *testing.T, command string) (*Host, *leaderEnd) {
	t.Helper()
	end := &leaderEnd{}
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "h", Logger: hclog.NewNullLogger()})
	h.session = end
	spawner, err := process.NewSpawner("")
	must.NoError(t, err)
	t.Cleanup(spawner.Close)
	p, err := spawner.Start(process.Spec{Command: "sh", Args: []string{"-c", command}})
	must.NoError(t, err)
	t.Cleanup(func() { p.Stop(true); <-p.Done() })
	s := h.slots[0]
	s.State, s.Incarnation, s.Generation, s.proc, s.endpoint = elastic.InRing, 1, 1, p, endpoint{}
	h.breakRing(1)
	return h, end
}

// watch polls until the process was reported as idle, or limit has passed.
func watch(h *Host, end *leaderEnd, limit time.Duration) bool {
	for begin := time.Now(); time.Since(begin) < limit && len(end.sent) == 0; time.Sleep(50 * time.Millisecond) {
		h.poll()
		if time.Since(begin) > elastic.IdleTime {
			h.breakRing(1) // by another leader, which changes nothing
		}
	}
	return len(end.sent) > 0 && end.sent[0].Idle.Idle
}

const long, short = 20 * elastic.IdleTime, 2 * elastic.IdleTime

func TestAProcessThatHangsIsReported(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{"waits": "sleep 1000", "waits for another": "sleep 1000 & wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, end := inBrokenRing(t, command)
			must.True(t, watch(h, end, long))
			must.True(t, h.register().Info.Slots[0].Idle, must.Sprint("for the next leader"))
		})
	}
}

func TestAProcessThatWasStoppedIsNotReported(t *testing.T) {
	t.Parallel()
	h, end := inBrokenRing(t, "sleep 1000 & wait")
	h.slots[0].proc.Signal(syscall.SIGSTOP)
	for !activityOf(h.slots[0].proc.PID()).held {
		time.Sleep(time.Millisecond)
	}
	must.False(t, watch(h, end, short))
	must.False(t, h.register().Info.Slots[0].Idle)
}

// TestComputing checks no bounds of time, because it can't know how much CPU time a process
// gets.
func TestComputing(t *testing.T) {
	t.Parallel()
	const spin = "while :; do :; done"
	for name, command := range map[string]string{"itself": spin, "another": "(" + spin + ") & wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := inBrokenRing(t, command)
			for activityOf(h.slots[0].proc.PID()).used < 2*idleUse {
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// The activity of a process in a ring that broke does not matter in the next ring.
func TestAProcessThatLeavesABrokenRingIsNotWatched(t *testing.T) {
	t.Parallel()
	h, end := inBrokenRing(t, "sleep 1000")
	must.True(t, watch(h, end, long))
	s := h.slots[0]
	h.waiting(h.proc(0), s.endpoint, 1)
	must.False(t, h.register().Info.Slots[0].Idle)
	end.sent = nil
	s.State, s.Generation = elastic.InRing, 2
	h.breakRing(1)
	must.False(t, watch(h, end, short))
}

func TestIdle(t *testing.T) {
	t.Parallel()
	const look = 200 * time.Millisecond
	for name, tc := range map[string]struct {
		begin time.Duration                // used until the ring broke
		share float64                      // of a CPU, since then
		other func(i int) (held, end bool) // something else at one look
		idle  bool
	}{
		"nothing":             {idle: true},
		"nothing since then":  {begin: time.Hour, idle: true},
		"Gloo's threads":      {share: 0.02, idle: true},
		"a little":            {share: 0.1},
		"waits for a disk":    {other: func(i int) (held, end bool) { return i%5 == 0, false }},
		"a descendant ended":  {begin: time.Minute, other: func(i int) (held, end bool) { return false, i == 5 }},
		"and that was before": {begin: time.Minute, other: func(i int) (held, end bool) { return false, i == 0 }, idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			w := &idleWatch{since: now}
			a := activity{used: tc.begin}
			for i := range int(elastic.IdleTime/look) + 2 {
				a.used += time.Duration(tc.share * float64(look))
				if tc.other != nil {
					var end bool
					if a.held, end = tc.other(i); end {
						a.used -= time.Second
					}
				}
				w.look(now, a)
				now = now.Add(look)
			}
			must.Eq(t, tc.idle, w.idle)
		})
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	line := func(command, state string) []byte {
		return []byte("12 (" + command + ") " + state + " 1 12 12 0 -1 4194560 0 0 0 0 100 20 7 7 20 0 1 0 4711 0 0")
	}
	var a activity
	a.add(line("python3", "S"))
	a.add(line("a) D 1 (b", "R"))
	must.Eq(t, activity{used: 2400 * time.Millisecond, runs: true}, a)
	for _, state := range []string{"D", "T", "t"} {
		a = activity{}
		a.add(line("python3", state))
		must.True(t, a.held, must.Sprint(state))
	}
	a = activity{}
	a.add(nil)
	a.add([]byte("12 (python3) D"))
	must.Eq(t, activity{}, a)
}
