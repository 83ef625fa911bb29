// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// ledBy is a leader that is called instead of run, with hosts of one slot each
// that are played by the test.
type ledBy struct {
	*Leader
	t    *testing.T
	ends map[elastic.HostID]session
}

func lead(t *testing.T, c Config, hosts ...elastic.HostID) *ledBy {
	c.NP, c.MinNP, c.Settle = len(hosts), 1, 1
	l := &ledBy{Leader: NewLeader(LeaderOptions{Config: c, Term: 1, Logger: hclog.NewNullLogger()}), t: t, ends: map[elastic.HostID]session{}}
	for i, id := range hosts {
		up, dn := newPipes()
		l.ends[id] = up
		l.join(t.Context(), &Register{Info: elastic.HostInfo{ID: id, Index: i, Slots: make([]elastic.SlotReport, 1)}}, dn)
	}
	l.connect()
	return l
}

// sent returns what the leader has sent to all hosts since the last call.
func (l *ledBy) sent() map[elastic.HostID][]*ToAgent {
	all := map[elastic.HostID][]*ToAgent{}
	for id, s := range l.ends {
		p := s.(pipeSession).in
		p.mu.Lock()
		all[id], p.items = p.items, nil
		p.mu.Unlock()
	}
	return all
}

// connect plays the hosts until the next ring is up.
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
					l.receive(l.t.Context(), id, &ToLeader{Arrived: &elastic.SlotArrived{Proc: m.Start.Proc}})
				case m.Form != nil:
					generation = m.Form.Generation
					mem := m.Form.Find(elastic.SlotID{Host: id})
					l.receive(l.t.Context(), id, &ToLeader{Up: &elastic.SlotUp{Proc: mem.Proc, Generation: generation}})
				}
			}
		}
	}
}

// reform ends the ring by a notice and connects the next.
func (l *ledBy) reform() {
	l.t.Helper()
	ring := l.machine.Ring()
	for _, m := range ring.Members {
		l.receive(l.t.Context(), m.Proc.Slot.Host, &ToLeader{Waiting: &elastic.SlotWaiting{Proc: m.Proc, Generation: ring.Generation}})
	}
	l.connect()
}

func (l *ledBy) report(id elastic.HostID, p Progress) {
	p.Generation = l.ring.Generation
	l.receive(l.t.Context(), id, &ToLeader{Progress: &p})
}

// stalled says whether the ring is broken when the leader looks at it so much
// later.
func (l *ledBy) stalled(later time.Duration) bool {
	l.sent()
	l.checkStall(l.t.Context(), time.Now().Add(later))
	broken := false
	for _, messages := range l.sent() {
		for _, m := range messages {
			broken = broken || m.Break != nil
		}
	}
	return broken
}

func value(v float64) *float64 { return &v }

func TestStall(t *testing.T) {
	t.Parallel()
	const limit, soon, late = 10 * time.Minute, time.Minute, 11 * time.Minute
	start := func() *ledBy { return lead(t, Config{StallTimeout: Duration(limit)}, "a", "b") }
	for name, at := range map[string]float64{"behind": 1e9, "ahead": 1e10, "elapsed": 3} {
		l := start()
		l.report("a", Progress{Step: value(1), At: at, FirstAt: at})
		must.False(t, l.stalled(soon), must.Sprint("the clock of the host is ", name))
		must.True(t, l.stalled(late), must.Sprint("the clock of the host is ", name))
	}

	l := start()
	must.False(t, l.stalled(late), must.Sprint("the script may never report"))
	l.report("a", Progress{Step: value(1), At: 1, FirstAt: 1})
	l.stepped = l.stepped.Add(-late)
	l.report("a", Progress{Step: value(1), At: 2, FirstAt: 1})
	must.True(t, l.stalled(soon), must.Sprint("a line without a new step is none"))

	l = start()
	l.report("a", Progress{Step: value(1), At: 1, FirstAt: 1})
	l.stepped = l.stepped.Add(-late)
	l.report("a", Progress{Step: value(0), At: 2, FirstAt: 1})
	must.False(t, l.stalled(soon), must.Sprint("steps may be counted anew in each epoch"))

	l.reform()
	must.False(t, l.stalled(soon))
	must.True(t, l.stalled(late), must.Sprint("the next ring never made its first step"))

	l = start()
	l.report("a", Progress{Step: value(1), At: 1, FirstAt: 1})
	l.hosts["a"].session = nil
	must.False(t, l.stalled(late), must.Sprint("nobody can tell"))

	l = start()
	l.report("a", Progress{Step: value(1), At: 1, FirstAt: 1})
	l.receive(t.Context(), "b", &ToLeader{Exited: &Exited{SlotExited: elastic.SlotExited{Proc: l.machine.Ring().Members[1].Proc, Success: true}}})
	must.False(t, l.stalled(late), must.Sprint("training is complete, rank 0 may write its last checkpoint"))
}

// What JSON can't hold would end the sessions that a status is sent on.
func TestStatusStaysFinite(t *testing.T) {
	t.Parallel()
	l := lead(t, Config{}, "a")
	huge := 1.7e308
	l.report("a", Progress{Step: value(0), Samples: value(-huge), At: 1, First: value(0), FirstSamples: value(-huge), FirstAt: 1})
	l.report("a", Progress{Step: value(1), Samples: value(huge), At: 2, First: value(0), FirstSamples: value(-huge), FirstAt: 1})
	l.report("a", Progress{Step: value(-huge), Loss: value(huge), At: huge, First: value(huge), FirstAt: -huge})
	l.reform()
	l.report("a", Progress{Step: value(huge), At: 4, First: value(-huge), FirstAt: 4})
	l.publish()
	_, err := json.Marshal(l.status)
	must.NoError(t, err)
}

// An agent that has died is not waited for: its port refuses.
func TestADeadAgentIsLostAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	n := newTestNomad(t, "a", "b")
	l := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Term: 1, Logger: hclog.NewNullLogger(), HostTimeout: time.Hour,
		Present: func(string, time.Time) (bool, bool) { return true, true }})
	wg.Go(func() { _ = l.Run(t.Context()) })
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.NoError(t, err)
		return listener
	}
	listener, dead := listen(), listen()
	must.NoError(t, dead.Close())
	server := newServer(n.transport("a").Server())
	registerSessions(server, func() *Leader { return l })
	wg.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(server.Stop)

	s, err := openSession(t.Context(), listener.Addr().String(), n.transport("b").Client("a"), silence)
	must.NoError(t, err)
	must.NoError(t, s.send(&ToLeader{Register: &Register{AllocID: "b", Addr: dead.Addr().String(),
		Info: elastic.HostInfo{ID: "b", Slots: make([]elastic.SlotReport, 1)}}}))
	until := func(hosts int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			c := make(chan int, 1)
			l.post(func() { c <- len(l.hosts) })
			if n := <-c; n == hosts {
				return
			}
			must.True(t, time.Now().Before(end), must.Sprintf("waiting for %d hosts", hosts))
		}
	}
	until(1)
	s.close()
	until(0)
}

// refusing asks long, and gets no consent.
type refusing struct{ asked chan struct{} }

func (refusing) MayForm([]string) (bool, string) { return true, "" }

func (r refusing) Form(context.Context, uint64, []string) error {
	close(r.asked)
	time.Sleep(200 * time.Millisecond)
	return errors.New("no majority")
}

// A host that registers while the leader waits for a consent that it does not
// get must not stay in session with a leader that is over.
func TestALeaderThatIsOverKeepsNobody(t *testing.T) {
	t.Parallel()
	r := refusing{make(chan struct{})}
	l := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Term: 1, Consent: r, Logger: hclog.NewNullLogger()})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(t.Context()) }()
	register := func(alloc string) session {
		up, down := newPipes()
		go func() { _ = l.Serve(down) }()
		info := elastic.HostInfo{ID: elastic.HostID(alloc + "-1"), Slots: []elastic.SlotReport{{}}}
		must.NoError(t, up.send(&ToLeader{Register: &Register{Info: info, AllocID: alloc}}))
		return up
	}
	first := register("a")
	for {
		m, err := first.recv()
		must.NoError(t, err)
		if m.Start != nil {
			must.NoError(t, first.send(&ToLeader{Arrived: &elastic.SlotArrived{Proc: m.Start.Proc}}))
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
			if _, err := second.recv(); err != nil {
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
