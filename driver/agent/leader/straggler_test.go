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

// lastIn returns the reports of n steps. In the first of every ten steps the ranks of others
// arrive last, in turn, and the given rank in the rest.
func lastIn(n, rank int, behind float64, others ...int) (out []wire.Last) {
	for i := range n {
		l := wire.Last{Rank: rank, Behind: behind}
		if at := i % 10; at < len(others) {
			l = wire.Last{Rank: others[at], Behind: 1}
		}
		out = append(out, l)
	}
	return out
}

func TestStraggler(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		steps []wire.Last
		step  float64
		want  *wire.Straggler
	}{
		"one rank":                     {lastIn(100, 5, 0.14, 3), 0.5, &wire.Straggler{Rank: 5, Share: 0.9, Behind: 0.14, Steps: 100}},
		"too few steps":                {lastIn(lastEnough-1, 5, 0.14), 0.5, nil},
		"enough steps":                 {lastIn(lastEnough, 5, 0.14), 0.5, &wire.Straggler{Rank: 5, Share: 1, Behind: 0.14, Steps: lastEnough}},
		"two ranks in turn":            {lastIn(100, 0, 0.14, 1, 1, 1, 1, 1), 0.5, nil},
		"too little behind":            {lastIn(100, 5, 0.04), 0.5, nil},
		"at the same time":             {lastIn(100, 5, 0), 0, nil},
		"the step time is unknown":     {lastIn(100, 5, 0.04), 0, &wire.Straggler{Rank: 5, Share: 1, Behind: 0.04, Steps: 100}},
		"a rank that the ring has not": {lastIn(100, 8, 0.14), 0.5, nil},
		"older steps are forgotten":    {append(lastIn(500, 2, 1), lastIn(lastWindow, 5, 0.14)...), 0.5, &wire.Straggler{Rank: 5, Share: 1, Behind: 0.14, Steps: lastWindow}},
	} {
		t.Run(name, func(t *testing.T) {
			var r lastRanks
			r.add(c.steps, 8, now)
			must.LessEq(t, lastWindow, len(r.recent))
			must.Eq(t, c.want, r.straggler(c.step, now))
		})
	}
}

func TestStragglerIsKept(t *testing.T) {
	var r lastRanks
	now := time.Now()
	add := func(n, rank int) *wire.Straggler {
		r.add(lastIn(n, rank, 1), 8, now)
		return r.straggler(0.5, now)
	}
	must.NotNil(t, add(100, 5))
	must.Eq(t, 5, add(40, 6).Rank, must.Sprint("in 60 of 100 steps"))
	must.Nil(t, add(15, 6), must.Sprint("in 45 of 100 steps"))
	must.Nil(t, add(1, 5))
	must.Eq(t, 5, add(90, 5).Rank)
	must.NotNil(t, r.straggler(0.5, now.Add(lastFresh)))
	must.Nil(t, r.straggler(0.5, now.Add(lastFresh+time.Second)), must.Sprint("no step since"))
	must.NotNil(t, r.straggler(0.5, now), must.Sprint("its share is large enough"))
	must.Nil(t, r.straggler(100, now), must.Sprint("a long step"))
}

// The leader names a rank of its own ring only, and forgets it with the ring.
func TestStragglerOfARing(t *testing.T) {
	t.Parallel()
	l := lead(t, config.Config{}, "a", "b", "c")
	status := func() *wire.Straggler { l.publish(); return l.status.Straggler }
	report := func(rank int) {
		l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1, Last: lastIn(100, rank, 0.14)})
	}
	must.Nil(t, status())
	report(3)
	must.Nil(t, status(), must.Sprint("the ring has three ranks"))
	report(-1)
	must.Nil(t, status())
	report(1)
	must.Eq(t, &wire.Straggler{Rank: 1, Host: "b", AllocID: l.hosts["b"].alloc, Share: 1, Behind: 0.14, Steps: 100}, status())

	old := l.ring.Generation
	l.reform()
	must.Nil(t, status())
	l.receive(t.Context(), "a", &wire.ToLeader{Progress: &wire.Progress{Generation: old, Step: value(2), At: 2, Last: lastIn(100, 1, 0.14)}})
	must.Nil(t, status(), must.Sprint("a late report of the last ring"))
}

// The status keeps the last stall, also under the next leader.
func TestStatusOfAStall(t *testing.T) {
	t.Parallel()
	l := lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Duration(10 * time.Minute)}}, "a", "b")
	status := func() *wire.Stall { l.publish(); return l.status.Stall }
	l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1})
	must.Nil(t, status())
	must.False(t, l.stalled(6*time.Minute))
	must.Eq(t, 1, status().Generation)
	must.Eq(t, 2, status().Size)
	must.Between(t, 300, status().Seconds, 420)
	must.True(t, l.stalled(11*time.Minute))
	must.Between(t, 600, status().Seconds, 720)

	next := New(Options{Exchange: noExchange, Term: 2, Logger: hclog.NewNullLogger()})
	next.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "a", Slots: make([]elastic.SlotReport, 1)}, Status: l.status}, &hostEnd{})
	next.publish()
	must.Eq(t, l.status.Stall, next.status.Stall)
}
