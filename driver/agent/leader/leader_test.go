// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// oneSlot is the configuration of a job that needs only one process.
var oneSlot = config.Config{Training: settings.Training{NP: 1, MinNP: 1, ElasticTimeout: settings.Duration(time.Hour)}}

// hostEnd is a session that records the leader's messages.
type hostEnd struct{ sent []*wire.ToAgent }

func (e *hostEnd) Send(m *wire.ToAgent) error { e.sent = append(e.sent, m); return nil }

func (*hostEnd) Recv() (*wire.ToLeader, error) { return nil, io.EOF }

func (*hostEnd) Close() {}

// noExchange returns an exchange that does nothing, for hosts that connect without one.
func noExchange() Exchange { return silent{} }

type silent struct{}

func (silent) Expect([]string)                                    {}
func (silent) Submit(string, []wire.Put) ([]wire.Fill, error)     { return nil, nil }
func (silent) Restore(string, wire.Snapshot) ([]wire.Fill, error) { return nil, nil }
func (silent) Withdraw([]wire.Put) bool                           { return false }
func (silent) Connected()                                         {}

// ledBy is a leader whose methods the test calls directly, without Run. The test simulates
// its hosts, which have one slot each.
type ledBy struct {
	*Leader
	t    *testing.T
	ends map[elastic.HostID]*hostEnd
}

func lead(t *testing.T, c config.Config, hosts ...elastic.HostID) *ledBy {
	c.NP, c.MinNP, c.ElasticTimeout = len(hosts), 1, settings.Duration(time.Hour)
	l := &ledBy{Leader: New(Options{Exchange: noExchange, Config: c, Term: 1, Logger: hclog.NewNullLogger()}), t: t, ends: map[elastic.HostID]*hostEnd{}}
	for i, id := range hosts {
		l.ends[id] = &hostEnd{}
		l.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: id, Index: i, Slots: make([]elastic.SlotReport, 1)}}, l.ends[id])
	}
	l.connect()
	return l
}

// sent returns what the leader has sent to all hosts since the last call.
func (l *ledBy) sent() map[elastic.HostID][]*wire.ToAgent {
	all := map[elastic.HostID][]*wire.ToAgent{}
	for id, e := range l.ends {
		all[id], e.sent = e.sent, nil
	}
	return all
}

// connect simulates the hosts until the next ring is up.
func (l *ledBy) connect() {
	l.t.Helper()
	generation := uint64(0)
	for end := time.Now().Add(time.Minute); !l.machine.Up() || generation == 0; {
		must.True(l.t, time.Now().Before(end))
		l.step(l.t.Context(), elastic.Tick{})
		for id, messages := range l.sent() {
			for _, m := range messages {
				switch {
				case m.Start != nil:
					l.receive(l.t.Context(), id, &wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: m.Start.Proc}})
				case m.Form != nil:
					generation = m.Form.Generation
					mem := m.Form.Find(elastic.SlotID{Host: id})
					l.receive(l.t.Context(), id, &wire.ToLeader{Up: &elastic.SlotUp{Proc: mem.Proc, Generation: generation}})
				}
			}
		}
	}
}

// reform ends the ring with a notice and connects the next one.
func (l *ledBy) reform() {
	l.t.Helper()
	ring := l.machine.Ring()
	for _, m := range ring.Members {
		l.receive(l.t.Context(), m.Proc.Slot.Host, &wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: m.Proc, Generation: ring.Generation}})
	}
	l.connect()
}

func (l *ledBy) report(id elastic.HostID, p wire.Progress) {
	p.Generation = l.ring.Generation
	l.receive(l.t.Context(), id, &wire.ToLeader{Progress: &p})
}

// stalled reports whether the leader breaks the ring when it checks it after a time. If so,
// each host must get one report, and no other at the next check.
func (l *ledBy) stalled(later time.Duration) bool {
	l.t.Helper()
	generation := l.ring.Generation
	breaks := func() (n int) {
		l.checkStall(l.t.Context(), time.Now().Add(later))
		for _, messages := range l.sent() {
			for _, m := range messages {
				if m.Break != nil {
					must.Eq(l.t, generation, m.Break.Generation)
					n++
				}
			}
		}
		return n
	}
	l.sent()
	broken := breaks()
	if broken > 0 {
		must.Eq(l.t, len(l.hosts), broken)
		must.Zero(l.t, breaks())
	}
	must.Eq(l.t, broken > 0, !l.machine.Up(), must.Sprint("the machine knows"))
	return broken > 0
}

func value(v float64) *float64 { return &v }

func TestStall(t *testing.T) {
	t.Parallel()
	const limit, soon, late = 10 * time.Minute, time.Minute, 11 * time.Minute
	start := func() *ledBy {
		return lead(t, config.Config{Training: settings.Training{StallTimeout: settings.Duration(limit)}}, "a", "b")
	}
	for name, at := range map[string]float64{"behind": 1e9, "ahead": 1e10, "elapsed": 3} {
		l := start()
		l.report("a", wire.Progress{Step: value(1), At: at, FirstAt: at})
		must.False(t, l.stalled(soon), must.Sprint("the clock of the host is ", name))
		must.True(t, l.stalled(late), must.Sprint("the clock of the host is ", name))
	}

	l := start()
	must.False(t, l.stalled(late), must.Sprint("the script may never report"))
	l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1})
	l.stepped = l.stepped.Add(-late)
	l.report("a", wire.Progress{Step: value(1), At: 2, FirstAt: 1})
	must.True(t, l.stalled(soon), must.Sprint("a line without a new step is none"))

	l = start()
	l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1})
	l.stepped = l.stepped.Add(-late)
	l.report("a", wire.Progress{Step: value(0), At: 2, FirstAt: 1})
	must.False(t, l.stalled(soon), must.Sprint("steps may be counted from 0 in each epoch"))

	l.reform()
	must.False(t, l.stalled(soon))
	must.True(t, l.stalled(late), must.Sprint("the next ring never made its first step"))

	l = start()
	l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1})
	l.hosts["a"].session = nil
	must.False(t, l.stalled(late), must.Sprint("whether it makes steps is not known"))

	l = start()
	l.report("a", wire.Progress{Step: value(1), At: 1, FirstAt: 1})
	l.receive(t.Context(), "b", &wire.ToLeader{Exited: &wire.Exited{SlotExited: elastic.SlotExited{Proc: l.machine.Ring().Members[1].Proc, Success: true}}})
	must.False(t, l.stalled(late), must.Sprint("training is complete, rank 0 may write its last checkpoint"))
}

// Numbers that JSON can't represent would end the sessions over which a status is sent.
// A host is sent the ranks of the ring once for each ring, unless its version always needs them.
func TestStatusLeavesOutRanksThatAHostKnows(t *testing.T) {
	t.Parallel()
	l := lead(t, config.Config{}, "a", "b")
	l.hosts["a"].keepsRanks = true
	check := func(kept bool, size int) {
		t.Helper()
		l.sent()
		l.publish()
		got := l.sent()
		a, b := got["a"][0].Status, got["b"][0].Status
		must.EqOp(t, kept, a.RanksKept)
		must.EqOp(t, !kept, len(a.Ranks) == size)
		must.Len(t, size, b.Ranks)
		must.False(t, b.RanksKept)
		must.Eq(t, l.status, a.WithRanks(b))
	}
	l.publish()
	check(true, 2)
	l.hosts["b"].alloc = "another"
	check(false, 2)
	check(true, 2)
	l.hosts["a"].ranks = 0 // a new session
	check(false, 2)
}

func TestStatusStaysFinite(t *testing.T) {
	t.Parallel()
	l := lead(t, config.Config{}, "a")
	huge := 1.7e308
	l.report("a", wire.Progress{Step: value(0), Samples: value(-huge), At: 1, First: value(0), FirstSamples: value(-huge), FirstAt: 1})
	l.report("a", wire.Progress{Step: value(1), Samples: value(huge), At: 2, First: value(0), FirstSamples: value(-huge), FirstAt: 1})
	l.report("a", wire.Progress{Step: value(-huge), Loss: value(huge), At: huge, First: value(huge), FirstAt: -huge})
	l.reform()
	l.report("a", wire.Progress{Step: value(huge), At: 4, First: value(-huge), FirstAt: 4})
	l.publish()
	_, err := json.Marshal(l.status)
	must.NoError(t, err)
}

// refusing takes long to answer, and gives no consent.
type refusing struct{ asked chan struct{} }

func (refusing) Connect(string)                  {}
func (refusing) MayForm([]string) (bool, string) { return true, "" }

func (r refusing) Form(context.Context, uint64, []string) error {
	close(r.asked)
	time.Sleep(200 * time.Millisecond)
	return errors.New("no majority")
}

// A host registers while the leader waits for a consent that it does not get. The host must not
// stay in session with that leader, which is about to end.
func TestALeaderThatIsOverKeepsNobody(t *testing.T) {
	t.Parallel()
	r := refusing{make(chan struct{})}
	l := New(Options{Exchange: noExchange, Config: oneSlot, Term: 1, Quorum: r, Logger: hclog.NewNullLogger()})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(t.Context()) }()
	register := func(alloc string) wire.HostEnd {
		up, down := wire.Pipe()
		go func() { _ = l.Serve(down) }()
		info := elastic.HostInfo{ID: elastic.HostID(alloc + "-1"), Slots: []elastic.SlotReport{{}}}
		must.NoError(t, up.Send(&wire.ToLeader{Register: &wire.Register{Info: info, AllocID: alloc}}))
		return up
	}
	first := register("a")
	for {
		m, err := first.Recv()
		must.NoError(t, err)
		if m.Start != nil {
			must.NoError(t, first.Send(&wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: m.Start.Proc}}))
			break
		}
	}
	<-r.asked
	second := register("b")
	must.Error(t, <-ended)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			if _, err := second.Recv(); err != nil {
				return
			}
		}
	}()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("the second host is still in session")
	}
}

// A host with another framework would start processes that no ring can connect.
func TestHostsOfOneFrameworkOnly(t *testing.T) {
	t.Parallel()
	c := oneSlot
	c.Framework = "horovod"
	l := New(Options{Exchange: noExchange, Config: c, Term: 1, Logger: hclog.NewNullLogger()})
	for name, tc := range map[string]struct {
		ring     *elastic.Ring
		released bool
	}{
		"new": {nil, true}, "trains": {&elastic.Ring{Generation: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			up, down := wire.Pipe()
			must.NoError(t, up.Send(&wire.ToLeader{Register: &wire.Register{Info: elastic.HostInfo{ID: "t", Ring: tc.ring}, Framework: "torch"}}))
			must.ErrorContains(t, l.Serve(down), "its driver is torch")
			m, err := up.Recv()
			if !tc.released {
				must.Error(t, err)
				return
			}
			must.NoError(t, err)
			must.True(t, m.Release.Failed)
			must.StrContains(t, m.Release.Reason, "stop the job before you change its driver")
		})
	}
	must.MapEmpty(t, l.hosts)
}

// A leader is lost together with rank 0. The next one learns the last notice's timestamp
// from the other hosts.
func TestNoticesOutliveTheLeader(t *testing.T) {
	t.Parallel()
	first := lead(t, config.Config{}, "a", "b")
	first.sent()
	first.notices.Heard(time.Now().Add(time.Hour).Unix()) // its clock was ahead
	first.perform(t.Context(), elastic.Notify{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a"}, Incarnation: 1}, Generation: 1})
	sent := first.sent()
	was := sent["a"][0].Notify.Timestamp
	must.Eq(t, was, sent["b"][0].Notify.Timestamp)

	second := New(Options{Exchange: noExchange, Config: oneSlot, Logger: hclog.NewNullLogger()})
	b := &hostEnd{}
	second.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "b", Slots: make([]elastic.SlotReport, 1)}, Noticed: was}, b)
	b.sent = nil
	second.perform(t.Context(), elastic.Notify{Generation: 2})
	must.Greater(t, was, b.sent[0].Notify.Timestamp)
}

// The leader changes its ring when a process is replaced while the ring forms. Messages on
// their way must have their own copies.
func TestRingsAreNotShared(t *testing.T) {
	t.Parallel()
	l := New(Options{Exchange: noExchange, Config: oneSlot, Logger: hclog.NewNullLogger()})
	a := &hostEnd{}
	l.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "a", Slots: make([]elastic.SlotReport, 1)}}, a)
	a.sent = nil
	ring := elastic.Ring{Generation: 1, Members: []elastic.Member{{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a"}, Incarnation: 1}}}}
	l.perform(t.Context(), elastic.Form{Ring: ring})
	ring.Members[0].Proc.Incarnation = 2 // by the leader's machine
	must.Eq(t, 1, a.sent[0].Form.Members[0].Proc.Incarnation)
}

// disagreeing is a quorum that agrees to no ring.
type disagreeing struct{}

func (disagreeing) Connect(string)                  {}
func (disagreeing) MayForm([]string) (bool, string) { return true, "" }
func (disagreeing) Form(context.Context, uint64, []string) error {
	return errors.New("generation already used")
}

// A leader that starts again because a ring was refused sends out its hosts' current ring without
// asking for consent again. It does ask for consent to the next one.
func TestBeginningAgain(t *testing.T) {
	for generation, asks := range map[uint64]bool{2: false, 3: false, 4: true} {
		l := New(Options{Exchange: noExchange, Config: oneSlot, Term: 7, Floor: 3, Quorum: disagreeing{}, Logger: hclog.NewNullLogger()})
		a := &hostEnd{}
		l.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "a", Slots: make([]elastic.SlotReport, 1)}}, a)
		l.failed, a.sent = nil, nil
		ring := elastic.Ring{Term: 7, Generation: generation, Members: []elastic.Member{{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a"}, Incarnation: 1}}}}
		l.perform(t.Context(), elastic.Form{Ring: ring})
		must.Eq(t, asks, l.failed != nil, must.Sprintf("generation %d", generation))
		must.Eq(t, asks, len(a.sent) == 0)
	}
}

// A new leader does not wait for a dead host of the ring. A host is dead if nothing listens
// at its address, or if its allocation has another agent.
func TestDeadHostsOfAnEarlierLeader(t *testing.T) {
	ring := func() *ledBy {
		l := lead(t, config.Config{}, "a-1", "b-1")
		l.o.Present = func(string, time.Time) (bool, bool) { return true, true }
		delete(l.hosts, "b-1") // it never came to this leader
		return l
	}
	successor := &wire.Register{AllocID: "b", Info: elastic.HostInfo{ID: "b-2", Index: 1, Slots: make([]elastic.SlotReport, 1)}}

	l := ring()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	must.NoError(t, listener.Close())
	l.o.Address = func(alloc string) string {
		must.Eq(t, "b", alloc)
		return listener.Addr().String()
	}
	l.tick(t.Context())
	must.NotNil(t, l.hosts["b-1"])
	(<-l.todo)()
	must.Nil(t, l.hosts["b-1"])
	l.tick(t.Context())
	must.Nil(t, l.hosts["b-1"], must.Sprint("once is enough"))

	l = ring()
	l.tick(t.Context())
	must.NotNil(t, l.hosts["b-1"])
	l.join(t.Context(), successor, &hostEnd{})
	must.Nil(t, l.hosts["b-1"])

	l = ring()
	l.join(t.Context(), successor, &hostEnd{})
	l.tick(t.Context())
	must.Nil(t, l.hosts["b-1"])
}

// A host without a session is lost after HostTimeout, or if a view of the registry from after the
// end of its session does not list it. The same applies to a host of the ring that has yet to
// register.
func TestHostsAreLostByTheRegistry(t *testing.T) {
	start := func(present, fresh bool) *ledBy {
		l := lead(t, config.Config{}, "a", "b", "c")
		l.o.Present = func(string, time.Time) (bool, bool) { return present, fresh }
		l.hosts["b"].session, l.hosts["b"].gone = nil, time.Now()
		delete(l.hosts, "c") // of an earlier leader's ring
		l.tick(t.Context())
		return l
	}
	for name, tc := range map[string]struct{ present, fresh, kept bool }{
		"named":               {true, true, true},
		"named by an old":     {true, false, true},
		"not named":           {false, true, false},
		"not named by an old": {false, false, true},
	} {
		l := start(tc.present, tc.fresh)
		must.NotNil(t, l.hosts["a"], must.Sprint("its session lasts"))
		must.Eq(t, tc.kept, l.hosts["b"] != nil, must.Sprint(name))
		must.Eq(t, tc.kept, l.hosts["c"] != nil, must.Sprint(name))
	}
	l := start(false, false)
	l.hosts["b"].gone = time.Now().Add(-time.Hour)
	l.tick(t.Context())
	must.Nil(t, l.hosts["b"])
	must.NotNil(t, l.hosts["c"], must.Sprint("it has as long as any other"))
}

// The hosts learn from the status whether the job must not adapt its batch. A leader that
// cannot read that goes on with what the hosts know.
func TestKeepBatch(t *testing.T) {
	t.Parallel()
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	told := func() (out []bool) {
		for _, messages := range l.sent() {
			for _, m := range messages {
				if m.Status != nil {
					out = append(out, m.Status.KeepsBatch)
				}
			}
		}
		return out
	}
	state := func(keep bool) { l.KeepBatch(keep); (<-l.todo)() }
	state(true)
	must.Eq(t, []bool{true, true}, told())
	state(true)
	must.SliceEmpty(t, told())
	state(false)
	must.Eq(t, []bool{false, false}, told())

	for _, stated := range []bool{false, true} {
		l := &ledBy{Leader: New(Options{Exchange: noExchange, Term: 2, Logger: hclog.NewNullLogger()}), t: t}
		if stated {
			l.KeepBatch(false)
			(<-l.todo)()
		}
		l.join(t.Context(), &wire.Register{Info: elastic.HostInfo{ID: "a"}, Status: &wire.Status{KeepsBatch: true, Updated: 1e12}}, &hostEnd{})
		must.Eq(t, !stated, l.keepsBatch)
	}
}
