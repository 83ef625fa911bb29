// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// leadReplaced returns a leader of processes that can't change their ring, with hosts of one
// slot and its standby each.
func leadReplaced(t *testing.T, hosts ...elastic.HostID) *ledBy {
	t.Helper()
	c := config.Config{Restart: settings.Restart{Checkpoint: settings.Checkpoint{Wait: settings.Duration(5 * time.Minute)}}}
	c.NP, c.MinNP, c.ElasticTimeout = len(hosts), 1, settings.Duration(time.Hour)
	l := &ledBy{Leader: New(Options{Exchange: noExchange, Config: c, Term: 1, Logger: hclog.NewNullLogger()}), t: t, ends: map[elastic.HostID]*hostEnd{}}
	for _, id := range hosts {
		l.joinReplaced(id)
	}
	l.play(t, 1)
	return l
}

func (l *ledBy) joinReplaced(id elastic.HostID) {
	l.ends[id] = &hostEnd{}
	l.join(l.t.Context(), &wire.Register{Info: elastic.HostInfo{ID: id, Index: len(l.ends), Width: 1, Slots: make([]elastic.SlotReport, 2)}, AllocID: "alloc-" + string(id)}, l.ends[id])
}

// play simulates the hosts until the ring of a generation is up: their processes arrive, and
// end when they are asked to. It returns the processes that were notified.
func (l *ledBy) play(t *testing.T, generation uint64) map[elastic.HostID][]elastic.Proc {
	t.Helper()
	notified := map[elastic.HostID][]elastic.Proc{}
	for end := time.Now().Add(time.Minute); !l.machine.Up() || l.machine.Last().Generation < generation; {
		must.True(t, time.Now().Before(end), must.Sprintf("%+v", l.machine.Last()))
		l.step(t.Context(), elastic.Tick{})
		for id, messages := range l.sent() {
			for _, m := range messages {
				switch {
				case m.Start != nil:
					l.receive(t.Context(), id, &wire.ToLeader{Notifiable: &elastic.SlotNotifiable{Proc: m.Start.Proc}})
					l.receive(t.Context(), id, &wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: m.Start.Proc, Restarts: true}})
				case m.Notify != nil:
					notified[id] = append(notified[id], m.Notify.Proc)
					l.receive(t.Context(), id, &wire.ToLeader{Exited: &wire.Exited{SlotExited: elastic.SlotExited{Proc: m.Notify.Proc, Success: true}}})
				case m.Form != nil:
					for _, mem := range m.Form.Members {
						if mem.Proc.Slot.Host == id {
							l.receive(t.Context(), id, &wire.ToLeader{Up: &elastic.SlotUp{Proc: mem.Proc, Generation: m.Form.Generation}})
						}
					}
				}
			}
		}
	}
	return notified
}

func TestProcessesAreReplacedForAChange(t *testing.T) {
	t.Parallel()
	l := leadReplaced(t, "a", "b")
	must.True(t, l.machine.Restarts(), must.Sprint("by the first arrival"))
	l.joinReplaced("c")
	notified := l.play(t, 2)
	first := func(id elastic.HostID) []elastic.Proc {
		return []elastic.Proc{{Slot: elastic.SlotID{Host: id}, Incarnation: 1}}
	}
	must.Eq(t, map[elastic.HostID][]elastic.Proc{"a": first("a"), "b": first("b")}, notified, must.Sprint("each on its own host"))
	l.publish()
	must.Nil(t, l.ended, must.Sprint("an exit after a notice is not the end"))
	must.Len(t, 3, l.status.Ranks)
	for _, r := range l.status.Ranks {
		must.Eq(t, 0, r.Slot, must.Sprint("a host has one slot"))
	}
	resize := l.status.Resizes[len(l.status.Resizes)-1]
	must.Eq(t, wire.Resize{From: 2, To: 3, Cause: "resize"}, wire.Resize{From: resize.From, To: resize.To, Cause: resize.Cause})
	must.Eq(t, 1, l.machine.Asked())
}

func TestAFailureIsReportedToItsHost(t *testing.T) {
	t.Parallel()
	l := leadReplaced(t, "a", "b")
	l.sent()
	p := elastic.Proc{Slot: elastic.SlotID{Host: "b"}, Incarnation: 1}
	l.receive(t.Context(), "b", &wire.ToLeader{Exited: &wire.Exited{SlotExited: elastic.SlotExited{Proc: p, Status: "signal 9 (killed)"}}})
	failed := map[elastic.HostID]int{}
	for id, messages := range l.sent() {
		for _, m := range messages {
			if m.Failed != nil {
				must.Eq(t, p.Slot, m.Failed.Slot)
				failed[id]++
			}
		}
	}
	must.Eq(t, map[elastic.HostID]int{"b": 1}, failed)
	must.True(t, l.stats.failures)
}

// A new leader learns of the previous leader's requests from the hosts' reports.
func TestALeaderKnowsOfARequestBefore(t *testing.T) {
	t.Parallel()
	c := config.Config{}
	c.NP, c.MinNP = 1, 1
	l := New(Options{Exchange: noExchange, Config: c, Term: 2, Logger: hclog.NewNullLogger()})
	l.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "a", Width: 1, Noticed: 7,
		Slots: []elastic.SlotReport{{State: elastic.Starting, Incarnation: 1, Restarts: true}, {}}}}, &hostEnd{})
	must.True(t, l.machine.Restarts())
	must.Eq(t, 7, l.machine.Asked())
}
