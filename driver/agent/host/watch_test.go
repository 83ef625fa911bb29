// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestAHostReportsWhatItsProcessesDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command string
		stop    bool
		want    stall.Activity
	}{
		"waits":      {"sleep 1000", false, stall.Idle},
		"computes":   {"while :; do :; done", false, stall.Busy},
		"is stopped": {"exec sleep 1000", true, stall.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, end := inBrokenRing(t, c.command)
			h.ring = &elastic.Ring{Generation: 1, Term: 1}
			h.slots[0].watch = nil // the ring is whole
			if c.stop {
				h.slots[0].proc.Signal(syscall.SIGSTOP)
				for begin := time.Now(); !activityOf(h.slots[0].proc.PID()).stopped; time.Sleep(10 * time.Millisecond) {
					must.Less(t, time.Minute, time.Since(begin))
				}
			}
			h.handle(&wire.ToAgent{Watch: &wire.Watch{Ring: wire.RingID{Generation: 2, Term: 1}, Number: 1}}) // another ring
			must.Nil(t, h.watching)
			request := wire.Watch{Ring: wire.RingID{Generation: 1, Term: 1}, Number: 2}
			h.handle(&wire.ToAgent{Watch: &request})
			h.poll()
			h.watching.began = h.watching.began.Add(-wire.StoppedTime)
			for range 2 {
				if h.watching != nil {
					h.watching.looked = time.Time{}
					h.poll()
				}
			}
			if c.stop {
				must.Len(t, 1, end.sent, must.Sprint("the answer comes early"))
			}
			for begin := time.Now(); len(end.sent) == 0; time.Sleep(50 * time.Millisecond) {
				must.Less(t, time.Minute, time.Since(begin))
				h.poll()
			}
			must.Eq(t, &wire.Watched{Ring: request.Ring, Number: 2, Activities: []wire.Activity{{Proc: h.proc(0), Activity: string(c.want)}}},
				end.sent[0].Watched)
		})
	}
}

func TestActivityOfAProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looks []activity
		want  stall.Activity
	}{
		"writes to a server that does not answer": {[]activity{{disk: true}, {disk: true}}, stall.Disk},
		"writes to a disk":                        {[]activity{{disk: true}, {}}, stall.Idle},
		"writes, and uses its CPU":                {[]activity{{disk: true}, {disk: true, used: time.Second}}, stall.Busy},
		"was stopped for a moment":                {[]activity{{stopped: true}, {}}, stall.Idle},
		"is in a debugger":                        {[]activity{{traced: true}, {traced: true}}, stall.Busy},
		"gets no CPU":                             {[]activity{{runs: true}, {runs: true}, {}}, stall.Busy},
		"lost a descendant":                       {[]activity{{used: time.Second}, {}}, stall.Busy},
		"Gloo's threads wake up":                  {[]activity{{}, {used: idleUse, runs: true}, {used: idleUse}}, stall.Idle},
	} {
		var s sight
		for _, a := range c.looks {
			s.look(a)
		}
		must.Eq(t, c.want, s.activity(), must.Sprint(name))
	}
}

// following returns a host whose slot 0 trains with a progress file.
func following(t *testing.T) (*Host, *slot, *leaderEnd) {
	t.Helper()
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "h", Logger: hclog.NewNullLogger()})
	end := &leaderEnd{}
	h.session = end
	s := h.slots[0]
	s.State, s.Incarnation, s.Generation, s.progress.path = elastic.InRing, 1, 4, filepath.Join(t.TempDir(), "progress")
	return h, s, end
}

func TestAHostCountsNewStepsAndTheSlowest(t *testing.T) {
	t.Parallel()
	h, s, end := following(t)
	appendTo(t, s.progress.path, `{"step": 1}`+"\n")
	h.readProgress(s)
	must.Eq(t, 1, end.sent[0].Progress.Made)
	must.Zero(t, end.sent[0].Progress.Slowest, must.Sprint("the first step of a ring is not measured"))

	s.stepped = s.stepped.Add(-3 * time.Second)
	s.sent = time.Now().Add(time.Hour)
	appendTo(t, s.progress.path, `{"step": 2}`+"\n")
	h.readProgress(s)
	s.sent = time.Time{}
	appendTo(t, s.progress.path, `{"step": 3}`+"\n"+`{"step": 3, "loss": 1}`+"\n")
	h.readProgress(s)
	must.Eq(t, 2, end.sent[1].Progress.Made)
	must.Between(t, 3, end.sent[1].Progress.Slowest, 60)

	s.sent = time.Time{}
	appendTo(t, s.progress.path, `{"loss": 0.5}`+"\n")
	h.readProgress(s)
	must.Zero(t, end.sent[2].Progress.Made, must.Sprint("they were reported"))
	must.Zero(t, end.sent[2].Progress.Slowest)
}

func TestAHostCountsStepsWithoutNumbers(t *testing.T) {
	t.Parallel()
	_, s, _ := following(t)
	s.take(wire.Progress{SteppedAt: 1})
	s.take(wire.Progress{SteppedAt: 2})
	s.take(wire.Progress{SteppedAt: 2})
	must.Eq(t, 2, s.latest.Made)
	step := 7.0
	s.take(wire.Progress{Step: &step, At: 3})
	s.take(wire.Progress{SteppedAt: 4})
	must.Eq(t, 3, s.latest.Made, must.Sprint("the numbers count from now on"))
}

func TestAScriptStatesThatItsStepIsSlow(t *testing.T) {
	t.Parallel()
	h, s, end := following(t)
	said := func(line string) (reasons []string) {
		appendTo(t, s.progress.path, line+"\n")
		h.readProgress(s)
		for _, m := range end.sent {
			if m.Slow != nil {
				must.Eq(t, h.proc(0), m.Slow.Proc)
				must.Eq(t, 4, m.Slow.Generation)
				reasons = append(reasons, m.Slow.Reason)
			}
		}
		end.sent = nil
		return reasons
	}
	must.SliceEmpty(t, said(`{"step": 1, "samples": 9}`))
	must.Eq(t, []string{"evaluation"}, said(`{"slow": "evaluation"}`))
	must.Eq(t, 9.0, *s.latest.Samples, must.Sprint("the line states nothing else"))
	must.SliceEmpty(t, said(`{"slow": "evaluation", "loss": 0.5}`))
	must.SliceEmpty(t, said(`{"slow": 3}`))
	h.reportSlow()
	must.Eq(t, "evaluation", end.sent[0].Slow.Reason, must.Sprint("for a new leader"))
	end.sent = nil
	must.SliceEmpty(t, said(`{"step": 1}`), must.Sprint("no new step"))
	must.Eq(t, []string{""}, said(`{"step": 2}`))
	must.Eq(t, []string{"x", ""}, said(`{"slow": "x"}`+"\n"+`{"slow": null}`))
	must.Eq(t, []string{"x", ""}, said(`{"slow": "x"}`+"\n"+`{"slow": ""}`))
	must.SliceEmpty(t, said(`{"slow": ""}`))
}
