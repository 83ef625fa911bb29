// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

func TestNoticeTimes(t *testing.T) {
	var n noticeTimes
	now := time.Unix(1_700_000_000, 0)
	first := n.next(1, now)
	for range 60 { // half a minute's wait for a commit
		now = now.Add(500 * time.Millisecond)
		must.LessEq(t, now.Unix(), n.next(1, now), must.Sprint("ahead of the clock"))
	}
	acted := n.next(1, now)
	must.Greater(t, first, acted)
	second := n.next(2, now)
	must.Greater(t, acted, second, must.Sprint("newer within a second too"))

	var late noticeTimes // its clock is behind
	late.heard(second)
	must.Greater(t, second, late.next(3, now.Add(-time.Hour)))
}

// TestNoticeTimesOutliveTheLeader is about a leader that is lost together with
// rank 0: the next one hears from the other hosts how far notices were.
func TestNoticeTimesOutliveTheLeader(t *testing.T) {
	leader := func() *Leader {
		return NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Logger: hclog.NewNullLogger()})
	}
	host := func(id elastic.HostID) *Host {
		return NewHost(HostOptions{Config: Config{Slots: 1, AllocID: string(id)}, ID: id, Logger: hclog.NewNullLogger()})
	}
	told := func(s session) int64 {
		s.close() // what was sent is still read, and then an error
		for {
			m, err := s.recv()
			must.NoError(t, err)
			if m.Notify != nil {
				return m.Notify.Timestamp
			}
		}
	}
	first, a, b := leader(), host("a"), host("b")
	upA, dnA := newPipes()
	upB, dnB := newPipes()
	first.join(t.Context(), a.register(), dnA)
	first.join(t.Context(), b.register(), dnB)
	first.notices.heard(time.Now().Add(time.Hour).Unix()) // its clock was ahead
	notice := elastic.Notify{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a"}, Incarnation: 1}, Generation: 1}
	first.perform(t.Context(), notice)
	was := told(upA)
	must.Eq(t, was, told(upB))
	b.handle(&ToAgent{Notify: &Notify{notice, was}})

	second := leader()
	upB, dnB = newPipes()
	second.join(t.Context(), b.register(), dnB)
	second.perform(t.Context(), elastic.Notify{Generation: 2})
	must.Greater(t, was, told(upB))
}

func TestNoticeOnTheWire(t *testing.T) {
	n := elastic.Notify{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a", Local: 1}, Incarnation: 2}, Generation: 3}
	old, err := json.Marshal(ToAgent{Notify: &Notify{Notify: n}})
	must.NoError(t, err)
	plain, err := json.Marshal(n)
	must.NoError(t, err)
	must.Eq(t, `{"notify":`+string(plain)+`}`, string(old), must.Sprint("as agents without timestamps send and read it"))
}
