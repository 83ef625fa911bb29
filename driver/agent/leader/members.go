// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// Session is the leader's end of a session with a host.
type Session interface {
	Send(*wire.ToAgent) error
	Recv() (*wire.ToLeader, error)
	Close()
}

// member is the leader's view of a host.
type member struct {
	alloc, addr string
	awaited     bool // its host is of an earlier leader's ring and has yet to register; alloc is a prefix of the ID
	width       int  // of its slots, if they have standbys; see elastic.HostInfo
	session     Session
	keepsRanks  bool      // understands wire.Status.RanksKept
	inspects    bool      // answers a wire.Inspect
	ranks       int       // version of the ranks that the session was last sent; see Leader.ranks
	gone        time.Time // since when it has no session
	released    bool
}

// Serve runs one session to its end.
func (l *Leader) Serve(s Session) error {
	defer s.Close()
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if first.Register == nil {
		return errors.New("a session begins with a registration")
	}
	r := first.Register
	if err := l.refuse(r, s); err != nil {
		return err
	}
	id := r.Info.ID
	q := newSendQueue(s)
	defer q.Close()
	// A leader that ends closes the sessions of its hosts. This session may not be among
	// them yet, and heartbeats would keep it open.
	go func() {
		select {
		case <-l.quit:
			q.Close()
		case <-q.done:
		}
	}()
	l.post(func() { l.join(l.ctx, r, q) })
	defer l.post(func() { l.parted(l.ctx, id, q) })
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		l.post(func() {
			if h := l.hosts[id]; h != nil && h.session == q {
				l.receive(l.ctx, id, m)
			}
		})
		select {
		case <-l.quit:
			return nil
		default:
		}
	}
}

// refuse returns an error for a host whose processes can't be in a ring with the others.
// During a job update that changes the driver, there are hosts with either driver.
func (l *Leader) refuse(r *wire.Register, s Session) error {
	if r.Framework == "" || r.Framework == l.o.Config.Framework {
		return nil
	}
	err := fmt.Errorf("its driver is %s, and that of the job's other allocations %s: stop the job before you change its driver",
		plaintext.Line(r.Framework, plaintext.Limit), l.o.Config.Framework)
	if r.Info.Ring == nil { // otherwise it trains, and a host with its driver may lead later
		_ = s.Send(&wire.ToAgent{Release: &elastic.ReleaseHost{Host: r.Info.ID, Failed: true, Reason: err.Error()}})
	}
	return err
}

// join handles the registration of a host.
func (l *Leader) join(ctx context.Context, r *wire.Register, s Session) {
	id := r.Info.ID
	for other, m := range l.hosts {
		same := m.alloc == r.AllocID
		if m.awaited {
			same = m.alloc == wire.AllocPrefix(id)
		}
		if other != id && same && r.AllocID != "" { // the task was restarted
			l.lost(ctx, other)
		}
	}
	if old := l.hosts[id]; old != nil && old.session != nil {
		old.session.Close()
	}
	l.hosts[id] = &member{alloc: r.AllocID, addr: r.Addr, width: r.Info.Width, session: s, keepsRanks: r.KeepsRanks, inspects: r.Inspects}
	l.notices.Heard(r.Noticed)
	if err := elastic.CheckTopology(r.Info.Topology); err != nil { // its own agent refuses it
		l.log.Warn("the host's topology is left out", "host", id, "error", err)
		r.Info.Topology = ""
	}
	l.log.Info("host joined", "host", id, "alloc", r.AllocID, "slots", cmp.Or(r.Info.Width, len(r.Info.Slots)), "group", r.Info.Group, "index", r.Info.Index, "topology", r.Info.Topology)
	if r.Status != nil && (l.status == nil || r.Status.Updated > l.status.Updated) && l.ring == (wire.RingID{}) {
		l.status = r.Status
		l.stats, l.stall = newRingStats(r.Status), r.Status.Stall
		if !l.batchStated {
			l.keepsBatch = r.Status.KeepsBatch
		}
	}
	if r.Info.Ring != nil && !r.Info.Leaving && l.o.Present != nil {
		// The allocation was registered once, so a view without it means that Nomad has
		// removed it.
		present, known := l.o.Present(r.AllocID, time.Time{})
		r.Info.Dropped = known && !present
	}
	l.checkQuorum(ctx)
	delete(l.mute, id) // its agent may be a newer one
	clear(l.givenUp)   // the machine now knows this host's ring, with all its members
	l.step(ctx, elastic.HostJoined{Info: r.Info})
	l.checkQuorum(ctx)
	l.followRing()
	if wire.IDOf(r.Info.Ring) == l.ring && l.exchange != nil {
		fills, err := l.exchange.Restore(string(id), r.Keys)
		l.fill(fills, err)
	}
}

// parted handles the end of a session. A live host comes back at once. Its address is
// probed: a refused connection means that it is dead.
func (l *Leader) parted(ctx context.Context, id elastic.HostID, s Session) {
	m := l.hosts[id]
	if m == nil || m.session != s {
		return
	}
	m.session, m.gone = nil, time.Now()
	if m.released || l.o.Present == nil {
		l.lost(ctx, id)
		return
	}
	l.checkQuorum(ctx)
	l.probe(ctx, id, m)
}

// probe gives up a host without a session whose address refuses a connection.
func (l *Leader) probe(ctx context.Context, id elastic.HostID, m *member) {
	if m.addr == "" {
		return
	}
	go func() {
		d := net.Dialer{Timeout: time.Second}
		c, err := d.DialContext(ctx, "tcp", m.addr)
		if err == nil {
			_ = c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			l.post(func() {
				if l.hosts[id] == m && m.session == nil {
					l.lost(ctx, id)
				}
			})
		}
	}()
}

// await starts to wait for a host of an earlier leader's ring to register, unless it is
// dead.
func (l *Leader) await(ctx context.Context, id elastic.HostID, now time.Time) {
	if l.restarted(id) {
		l.lost(ctx, id)
		return
	}
	m := &member{alloc: wire.AllocPrefix(id), awaited: true, gone: now}
	if l.o.Address != nil {
		m.addr = l.o.Address(m.alloc)
	}
	l.hosts[id] = m
	l.probe(ctx, id, m)
}

// restarted reports whether another agent of the host's allocation is in session. That
// means that the host is dead.
func (l *Leader) restarted(id elastic.HostID) bool {
	for other, m := range l.hosts {
		if other != id && m.session != nil && wire.AllocPrefix(other) == wire.AllocPrefix(id) {
			return true
		}
	}
	return false
}

// lost gives up a host.
func (l *Leader) lost(ctx context.Context, id elastic.HostID) {
	m := l.hosts[id]
	if m != nil {
		if m.session != nil {
			m.session.Close()
		}
		delete(l.hosts, id)
		l.log.Info("host gone", "host", id, "alloc", m.alloc)
	}
	if slices.Contains(l.machine.Ring().Hosts(), id) {
		if m == nil || !m.released { // otherwise its processes have left as planned
			l.stats.vanish()
		}
		l.givenUp[id] = true
	}
	l.checkQuorum(ctx)
	l.step(ctx, elastic.HostLost{Host: id})
}

func (l *Leader) tick(ctx context.Context) {
	now := time.Now()
	if l.o.Present != nil {
		for _, id := range l.machine.Ring().Hosts() { // of an earlier leader's ring, and not here yet
			if l.hosts[id] == nil && !l.givenUp[id] {
				l.await(ctx, id, now)
			}
		}
		for id, m := range l.hosts {
			if m.session != nil {
				continue
			}
			present, fresh := l.o.Present(m.alloc, m.gone)
			if fresh && !present || now.Sub(m.gone) > l.o.HostTimeout {
				l.lost(ctx, id)
			}
		}
	}
	l.checkQuorum(ctx)
	if l.isAuto() {
		l.auto.ticked(now, &l.stepped)
	}
	l.checkStall(ctx, now)
	l.lookAgain(now)
	l.lookForming(now)
	l.releaseAfterLook(ctx, now)
	if now.Sub(l.statusAt) >= time.Second {
		l.publish()
	}
}

// checkQuorum reports to the machine when it may or may no longer form rings.
func (l *Leader) checkQuorum(ctx context.Context) {
	if l.o.Quorum == nil {
		return
	}
	var connected []string
	for _, m := range l.hosts {
		if m.session != nil {
			connected = append(connected, m.alloc)
		}
	}
	ok, why := l.o.Quorum.MayForm(connected)
	if ok != l.quorum.OK || why != l.quorum.Reason {
		l.quorum = elastic.Quorum{OK: ok, Reason: why}
		l.step(ctx, l.quorum)
	}
}
