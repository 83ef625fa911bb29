// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// finishes is a script that ends once the file "end" is there.
const finishes = started + `while [ ! -e end ]; do sleep 0.02; done; echo all > written`

// leaver is a process that has left ring 1, in which it had rank 1, and waits. retire is
// called when it is asked to retire.
type leaver struct {
	*stage
	p       elastic.Proc
	process Events
}

func newLeaver(t *testing.T, retire func(dir string) error) *leaver {
	t.Helper()
	l := &leaver{stage: newStage(t, finishes, func(c *config.Config) { c.LeaveTimeout = settings.Duration(time.Minute) }), p: proc(0, 1)}
	l.f.retire = func(context.Context) error { return retire(l.dir) }
	l.send(&wire.ToAgent{Start: &elastic.Start{Proc: l.p, Assignment: second}})
	l.wrote(l.p)
	l.f.mu.Lock()
	l.process = l.f.events[0]
	l.f.mu.Unlock()
	l.process.Arrived(false)
	l.next("arrival", func(m *wire.ToLeader) bool { return m.Arrived != nil })
	l.form(1)
	l.until("the ring", func() bool { return l.registered().Slots[0].State == elastic.InRing })
	l.process.Waiting(1)
	l.next("that it waits", func(m *wire.ToLeader) bool { return m.Waiting != nil })
	return l
}

// second is the place of the process in the ring.
var second = elastic.Assignment{Rank: 1, Size: 2, LocalSize: 1, CrossRank: 1, CrossSize: 2}

// form forms a ring in which another host has rank 0.
func (l *leaver) form(generation uint64) {
	other := elastic.Proc{Slot: elastic.SlotID{Host: "other"}, Incarnation: 1}
	l.send(&wire.ToAgent{Form: &elastic.Ring{Generation: generation, Term: 1,
		Members: []elastic.Member{{Proc: other, Assignment: elastic.Assignment{Size: 2}}, {Proc: l.p, Assignment: second}}}})
}

func (l *leaver) retire() {
	l.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: l.p, Kill: true, Retire: true, Reason: "its host leaves"}})
	l.until("that it retires", func() bool { return l.registered().Slots[0].Retiring })
}

func (l *leaver) end() { must.NoError(l.t, os.WriteFile(filepath.Join(l.dir, "end"), nil, 0o600)) }

func silent(string) error { return nil }

func TestAProcessRetires(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(dir string) error { return os.WriteFile(filepath.Join(dir, "end"), nil, 0o600) })
	l.retire()
	ev := l.exited(l.p)
	must.True(t, ev.Success, must.Sprint(ev.Status))
	must.FileExists(t, filepath.Join(l.dir, "written"))
	must.False(t, l.registered().Completed)
}

func TestAProcessThatRetiresIsInNoRing(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, silent)
	l.retire()
	l.form(2)
	l.until("the ring", func() bool { return l.registered().Ring.Generation == 2 })
	must.Eq(t, elastic.Waiting, l.registered().Slots[0].State)
	l.end()
	must.True(t, l.exited(l.p).Success)
	must.False(t, l.registered().Completed)
}

func TestAProcessIsKilledThatCannotBeTold(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(string) error { return errors.New("it does not know how") })
	l.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: l.p, Kill: true, Retire: true}})
	must.StrContains(t, l.exited(l.p).Status, "killed")
	must.StrContains(t, l.stage.events(),
		"rank 1 of ring 1 (host h, slot 0) is killed: it left the ring, has no place in the next, and could not be told so: it does not know how")
}

func TestAProcessIsKilledThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	const event = "rank 1 of ring 1 (host h, slot 0) is killed: it left the ring, has no place in the next, and "
	for name, c := range map[string]struct {
		limit func(*leaver)
		event string
	}{
		"on a host that stays":  {func(l *leaver) { l.h.o.Config.LeaveTimeout = settings.Duration(50 * time.Millisecond) }, "has not ended in the time that it was given (leave_timeout)"},
		"on a host that leaves": {func(l *leaver) { l.h.Leave(50 * time.Millisecond) }, "has not ended in the time that it was given (kill_timeout)"},
		"but trains": {func(l *leaver) {
			l.h.post(func() { time.AfterFunc(50*time.Millisecond, func() { l.process.Waiting(2) }) })
		}, "continues to train although it was asked to end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeaver(t, silent)
			c.limit(l)
			l.send(&wire.ToAgent{Stop: &elastic.Stop{Proc: l.p, Kill: true, Retire: true}})
			must.StrContains(t, l.exited(l.p).Status, "killed")
			must.StrContains(t, l.stage.events(), event+c.event)
			must.StrNotContains(t, l.stage.events(), "training goes back")
		})
	}
}

// A host that leaves and finds no leader makes its processes retire. They get half of the time if
// others wait for the host's end.
func TestAHostWithoutALeaderRetiresItsProcesses(t *testing.T) {
	t.Parallel()
	l := newLeaver(t, func(dir string) error { return os.WriteFile(filepath.Join(dir, "end"), nil, 0o600) })
	l.h.Leave(time.Hour)
	l.leader.Close()
	must.StrContains(t, (<-l.result).Reason, "the task was stopped")
	must.FileExists(t, filepath.Join(l.dir, "written"))
}

// A host that has hardly any time left makes its processes retire, even if a leader might have a
// place for them.
func TestAHostTellsItsProcessesInTime(t *testing.T) {
	for name, c := range map[string]struct {
		left  time.Duration
		state elastic.SlotState
		led   bool
		told  bool
	}{
		"time is left":           {time.Hour, elastic.Waiting, false, false},
		"hardly any":             {lastChance / 2, elastic.Waiting, false, true},
		"hardly any, and is led": {lastChance / 2, elastic.Waiting, true, true},
		"hardly any, and trains": {lastChance / 2, elastic.InRing, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, _, _ := inRing(t)
			told := make(chan bool, 1)
			retire := func(context.Context) error { told <- true; return nil }
			h.slots[0].endpoint, h.slots[0].State = endpoint{&retire}, c.state
			if !c.led {
				h.session = nil
			}
			h.leaving, h.deadline = true, time.Now().Add(c.left)
			h.killed = true // else the deadline, too, ends the host on a slow machine
			h.poll()
			must.Eq(t, c.told, h.slots[0].Retiring)
			must.Eq(t, c.told, h.result != nil)
			if c.told {
				<-told
			}
		})
	}
}

// A host that ends does not wait until a process has learned that it has no next place.
func TestTellingAProcessEndsWithItsHost(t *testing.T) {
	h, _, _ := inRing(t)
	told := make(chan error, 1)
	retire := func(ctx context.Context) error { told <- ctx.Err(); return ctx.Err() }
	h.slots[0].endpoint, h.slots[0].State = endpoint{&retire}, elastic.Waiting
	h.quit()
	h.retire(h.proc(0), h.slots[0], time.Hour)
	must.ErrorIs(t, <-told, context.Canceled)
	h.tasks.Wait()
}
