// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

func TestNotifyClock(t *testing.T) {
	var n NotifyClock
	now := time.Unix(1_700_000_000, 0)
	first := n.Next(1, now)
	for range 60 { // half a minute's wait for a commit
		now = now.Add(500 * time.Millisecond)
		must.LessEq(t, now.Unix(), n.Next(1, now), must.Sprint("ahead of the clock"))
	}
	acted := n.Next(1, now)
	must.Greater(t, first, acted)
	second := n.Next(2, now)
	must.Greater(t, acted, second, must.Sprint("newer within a second too"))

	var late NotifyClock // its clock is behind
	late.Heard(second)
	must.Greater(t, second, late.Next(3, now.Add(-time.Hour)))
}

func TestNoticeOnTheWire(t *testing.T) {
	n := elastic.Notify{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a", Local: 1}, Incarnation: 2}, Generation: 3}
	old, err := json.Marshal(ToAgent{Notify: &Notify{Notify: n}})
	must.NoError(t, err)
	plain, err := json.Marshal(n)
	must.NoError(t, err)
	must.Eq(t, `{"notify":`+string(plain)+`}`, string(old), must.Sprint("as agents without timestamps send and read it"))
}
