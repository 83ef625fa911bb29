// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
)

// consent is asked before a ring may form; see discovery.Elector. Hosts are
// named by their allocations.
type consent interface {
	MayForm(connected []string) (bool, string)
	Form(ctx context.Context, generation uint64, hosts []string) error
}

// recorder keeps the fact that training is complete for allocations that Nomad
// places later.
type recorder interface {
	record(ctx context.Context, reason string) error
}

// LeaderOptions say what a Leader needs.
type LeaderOptions struct {
	Config Config
	Term   uint64
	// Floor is the highest generation that may be spent.
	Floor   uint64
	Consent consent  // nil: always
	Record  recorder // nil: nowhere
	// Present says whether an allocation is still registered, by a view of the
	// registry that is newer than the given time; nil: sessions alone tell.
	Present func(alloc string, after time.Time) (present, fresh bool)
	// PeerAuth is how agents know each other, for the status.
	PeerAuth string
	// HostTimeout is how long a host may be without a session, default 8 s.
	HostTimeout time.Duration
	Logger      hclog.Logger
}

// hostSession is the leader's end of a session.
type hostSession interface {
	send(*ToAgent) error
	recv() (*ToLeader, error)
	close()
}

// member is a host as the leader knows it.
type member struct {
	alloc, addr string
	session     hostSession
	gone        time.Time // without a session since
	dismissed   bool
}

// Leader runs the membership machine of a job. Its fields belong to the
// goroutine of Run.
type Leader struct {
	o       LeaderOptions
	log     hclog.Logger
	ctx     context.Context // of Run, for what is posted: a session's own ends with it
	todo    chan func()
	quit    chan struct{}
	machine *elastic.Machine
	hosts   map[elastic.HostID]*member
	quorum  elastic.Quorum

	ring      RingID
	keys      *rendezvous.Collector
	consented RingID
	notices   noticeTimes
	ledger    *ledger
	wasUp     bool
	ended     *elastic.End
	failed    error
	statusAt  time.Time
	stepped   time.Time // last new step of the present ring, by this clock; see checkStall
	stallTold uint64    // ring whose stall was told of
	status    *Status
}

// errNoConsent says that a ring was refused: the leader must begin again with
// what the hosts know.
var errNoConsent = errors.New("the ring was refused")

// NewLeader returns the leader of a term.
func NewLeader(o LeaderOptions) *Leader {
	if o.HostTimeout == 0 {
		o.HostTimeout = 8 * time.Second
	}
	c := o.Config
	lost := elastic.Fail
	if c.OnRingLost == "restart" {
		lost = elastic.Restart
	}
	l := &Leader{o: o, log: o.Logger, todo: make(chan func(), 256), quit: make(chan struct{}),
		hosts: map[elastic.HostID]*member{}, ledger: newLedger(nil), quorum: elastic.Quorum{OK: true}}
	l.machine = elastic.New(elastic.Options{
		NP: c.NP, MinNP: c.MinNP, MaxNP: c.MaxNP,
		ElasticTimeout: time.Duration(c.ElasticTimeout), Debounce: time.Duration(c.Settle),
		FinishTimeout: time.Duration(c.FinishTimeout),
		ResetLimit:    c.ResetLimit, SlotRestarts: c.SlotRestarts, OnRingLost: lost, Floor: o.Floor,
	}, o.Term)
	return l
}

func (l *Leader) post(f func()) {
	select {
	case l.todo <- f:
	case <-l.quit:
	}
}

// Run leads until ctx ends or a ring is refused, which is an error.
func (l *Leader) Run(ctx context.Context) error {
	defer close(l.quit)
	l.ctx = ctx
	defer func() {
		for _, m := range l.hosts {
			if m.session != nil {
				m.session.close()
			}
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(time.Hour)
	defer deadline.Stop()
	for l.failed == nil {
		if d := l.machine.Deadline(); !d.IsZero() {
			deadline.Reset(max(0, time.Until(d)))
		}
		select {
		case <-ctx.Done():
			return nil
		case f := <-l.todo:
			f()
		case <-deadline.C:
			l.step(ctx, elastic.Tick{})
		case <-tick.C:
			l.tick(ctx)
		}
	}
	return l.failed
}

// spent returns the highest generation that the leader has used or tried to;
// call it when Run has returned.
func (l *Leader) spent() uint64 {
	if last := l.machine.Last(); last != nil {
		return last.Generation
	}
	return l.o.Floor
}

// Serve runs one session to its end.
func (l *Leader) Serve(s hostSession) error {
	defer s.close()
	first, err := s.recv()
	if err != nil {
		return err
	}
	if first.Register == nil {
		return errors.New("a session begins with a registration")
	}
	r := first.Register
	id := r.Info.ID
	q := newSendQueue(s)
	defer q.close()
	// A leader that is over closes the sessions of its hosts; this one may not be
	// among them yet, and would be kept by the pulse.
	go func() {
		select {
		case <-l.quit:
			q.close()
		case <-q.done:
		}
	}()
	l.post(func() { l.join(l.ctx, r, q) })
	defer l.post(func() { l.parted(l.ctx, id, q) })
	for {
		m, err := s.recv()
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

// join takes in a host that registers.
func (l *Leader) join(ctx context.Context, r *Register, s hostSession) {
	id := r.Info.ID
	for other, m := range l.hosts {
		if other != id && m.alloc == r.AllocID && r.AllocID != "" { // the task was restarted
			l.lost(ctx, other)
		}
	}
	if old := l.hosts[id]; old != nil && old.session != nil {
		old.session.close()
	}
	l.hosts[id] = &member{alloc: r.AllocID, addr: r.Addr, session: s}
	l.notices.heard(r.Noticed)
	l.log.Info("host joined", "host", id, "alloc", r.AllocID, "slots", len(r.Info.Slots), "group", r.Info.Group, "index", r.Info.Index)
	if r.Status != nil && (l.status == nil || r.Status.Updated > l.status.Updated) && l.ring == (RingID{}) {
		l.status = r.Status
		l.ledger = newLedger(r.Status)
	}
	if r.Info.Ring != nil && !r.Info.Leaving && l.o.Present != nil {
		// It was registered once, so a view without it means that it is not
		// any more.
		present, known := l.o.Present(r.AllocID, time.Time{})
		r.Info.Dropped = known && !present
	}
	l.checkQuorum(ctx)
	l.step(ctx, elastic.HostJoined{Info: r.Info})
	l.checkQuorum(ctx)
	if r.Info.Leaving {
		l.step(ctx, elastic.HostLeaving{Host: id, Deadline: time.Now().Add(time.Duration(r.LeaveIn * float64(time.Second)))})
	}
	l.followRing()
	if ringID(r.Info.Ring) == l.ring && l.keys != nil {
		fills, err := l.keys.Restore(string(id), r.Keys)
		l.fill(fills, err)
	}
}

// followRing keeps the collector of keys with the newest ring. For a ring of an
// earlier leader, its hosts have yet to say what that one gave out.
func (l *Leader) followRing() {
	last := l.machine.Last()
	id := ringID(last)
	if id == l.ring {
		return
	}
	l.ring, l.keys = id, rendezvous.NewCollector()
	if id.Term != l.o.Term {
		var hosts []string
		for _, h := range last.Hosts() {
			hosts = append(hosts, string(h))
		}
		l.keys.Expect(hosts)
	}
}

// parted takes in the end of a session. A host that is alive comes back at
// once; whether it is, its address tells soonest.
func (l *Leader) parted(ctx context.Context, id elastic.HostID, s hostSession) {
	m := l.hosts[id]
	if m == nil || m.session != s {
		return
	}
	m.session, m.gone = nil, time.Now()
	if m.dismissed || l.o.Present == nil {
		l.lost(ctx, id)
		return
	}
	l.checkQuorum(ctx)
	addr := m.addr
	go func() {
		d := net.Dialer{Timeout: time.Second}
		c, err := d.DialContext(ctx, "tcp", addr)
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

// lost gives a host up.
func (l *Leader) lost(ctx context.Context, id elastic.HostID) {
	if m := l.hosts[id]; m != nil {
		if m.session != nil {
			m.session.close()
		}
		delete(l.hosts, id)
		l.log.Info("host gone", "host", id, "alloc", m.alloc)
	}
	if r := l.machine.Ring(); r != nil {
		for _, h := range r.Hosts() {
			if h == id {
				l.ledger.fail()
			}
		}
	}
	l.checkQuorum(ctx)
	l.step(ctx, elastic.HostLost{Host: id})
}

// allocPrefix returns what a host's name tells of its allocation.
func allocPrefix(id elastic.HostID) string {
	p, _, _ := strings.Cut(string(id), "-")
	return p
}

func (l *Leader) tick(ctx context.Context) {
	now := time.Now()
	if l.o.Present != nil {
		missing := map[elastic.HostID]*member{}
		for id, m := range l.hosts {
			if m.session == nil {
				missing[id] = m
			}
		}
		for _, id := range l.machine.Last().Hosts() { // of an earlier leader's ring, and not here yet
			if l.hosts[id] == nil && l.machine.Ring() != nil {
				l.hosts[id] = &member{alloc: allocPrefix(id), gone: now}
			}
		}
		for id, m := range missing {
			present, fresh := l.o.Present(m.alloc, m.gone)
			if fresh && !present || now.Sub(m.gone) > l.o.HostTimeout {
				l.lost(ctx, id)
			}
		}
	}
	l.checkQuorum(ctx)
	l.checkStall(ctx, now)
	if now.Sub(l.statusAt) >= time.Second {
		l.publish()
	}
}

// checkStall looks for a ring that makes no steps any more, which is what a
// process that hangs looks like from outside: the others wait for it in a
// collective, and Horovod's own stall check does not tell in every case. A ring
// that makes no first step counts too, once the script is known to report steps.
// The time is that of this clock: those of the hosts may differ.
func (l *Leader) checkStall(ctx context.Context, now time.Time) {
	if !l.ledger.reports || !l.machine.Up() || l.machine.Ending() || !l.hearsAll() {
		l.stepped = now
		return
	}
	quiet := now.Sub(l.stepped).Seconds()
	limit := time.Duration(l.o.Config.StallTimeout).Seconds()
	warn := max(60, 30*l.ledger.stepSeconds()[l.ledger.size].Mean)
	if limit > 0 {
		warn = min(warn, limit/2)
	}
	generation := l.ring.Generation
	if quiet > warn && l.stallTold != generation {
		l.stallTold = generation
		l.broadcast(&ToAgent{Story: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s: a process may hang, while the others wait for it in a collective (stall)", generation, quiet)}})
	}
	if limit > 0 && quiet > limit {
		l.broadcast(&ToAgent{Story: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d has made no step for %.0f s (stall_timeout): it is broken and formed again without processes that hang", generation, quiet)}})
		l.ledger.fail()
		l.ledger.leave(now)
		l.step(ctx, elastic.Stalled{Generation: generation})
	}
}

// hearsAll says whether every host of the ring is in session: of one that is
// not, nobody knows whether it makes steps.
func (l *Leader) hearsAll() bool {
	for _, id := range l.machine.Ring().Hosts() {
		if m := l.hosts[id]; m == nil || m.session == nil {
			return false
		}
	}
	return true
}

// checkQuorum keeps the machine informed whether it may form rings.
func (l *Leader) checkQuorum(ctx context.Context) {
	if l.o.Consent == nil {
		return
	}
	var connected []string
	for _, m := range l.hosts {
		if m.session != nil {
			connected = append(connected, m.alloc)
		}
	}
	ok, why := l.o.Consent.MayForm(connected)
	if ok != l.quorum.OK || why != l.quorum.Reason {
		l.quorum = elastic.Quorum{OK: ok, Reason: why}
		l.step(ctx, l.quorum)
	}
}

// receive takes in one message of a host.
func (l *Leader) receive(ctx context.Context, id elastic.HostID, m *ToLeader) {
	switch {
	case m.Leaving != nil:
		l.log.Info("host leaves", "host", id)
		l.step(ctx, elastic.HostLeaving{Host: id, Deadline: time.Now().Add(time.Duration(m.Leaving.In * float64(time.Second)))})
	case m.Arrived != nil:
		l.step(ctx, *m.Arrived)
	case m.Waiting != nil:
		l.ledger.leave(time.Now())
		l.step(ctx, *m.Waiting)
	case m.Up != nil:
		l.step(ctx, *m.Up)
	case m.Notifiable != nil:
		l.step(ctx, *m.Notifiable)
	case m.Exited != nil:
		ev := m.Exited.SlotExited
		ev.Status = printable(ev.Status) // from another host, whose tenant may write what its agent sends
		if m.Exited.Ring == l.ring && l.keys != nil && len(m.Exited.Withdrawn) > 0 && l.keys.Withdraw(m.Exited.Withdrawn) {
			ev.Visible = true
		}
		if l.machine.Ring().Find(ev.Proc.Slot) != nil && !ev.Success {
			l.ledger.fail()
			l.ledger.leave(time.Now())
		}
		l.step(ctx, ev)
	case m.Puts != nil:
		if m.Puts.Ring == l.ring && l.keys != nil {
			fills, err := l.keys.Submit(string(id), m.Puts.Puts)
			l.fill(fills, err)
		}
	case m.Progress != nil:
		m.Progress.bound()
		if m.Progress.Generation > 0 {
			if m.Progress.Step != nil {
				l.step(ctx, elastic.Trained{Generation: m.Progress.Generation})
			}
			if before := l.ledger.latest.Step; m.Progress.Generation == l.ring.Generation && m.Progress.Step != nil &&
				(before == nil || *before != *m.Progress.Step) {
				l.stepped = time.Now()
			}
			l.tellResize(l.ledger.progress(*m.Progress))
		}
	}
}

func (l *Leader) fill(fills []rendezvous.Fill, err error) {
	if err != nil {
		l.log.Error("rendezvous", "ring", l.ring.Generation, "error", err)
	}
	for _, f := range fills {
		m := &ToAgent{Fill: &Fill{Ring: l.ring, Fill: f}}
		if f.Hosts == nil {
			l.broadcast(m)
			continue
		}
		for _, h := range f.Hosts {
			l.send(elastic.HostID(h), m)
		}
	}
}

func (l *Leader) send(id elastic.HostID, m *ToAgent) {
	if h := l.hosts[id]; h != nil && h.session != nil {
		if err := h.session.send(m); err != nil {
			h.session.close()
		}
	}
}

func (l *Leader) broadcast(m *ToAgent) {
	for id := range l.hosts {
		l.send(id, m)
	}
}

// step feeds the machine and does what it says.
func (l *Leader) step(ctx context.Context, ev elastic.Event) {
	for _, a := range l.machine.Step(time.Now(), ev) {
		if l.failed != nil {
			return
		}
		l.perform(ctx, a)
	}
	if up := l.machine.Up(); up != l.wasUp {
		l.wasUp = up
		if up {
			l.stepped = time.Now()
			l.keys.Settle()
			l.tellResize(l.ledger.up(time.Now()))
		}
		l.publish()
	}
}

func (l *Leader) perform(ctx context.Context, a elastic.Action) {
	switch a := a.(type) {
	case elastic.Start:
		l.send(a.Proc.Slot.Host, &ToAgent{Start: &a})
	case elastic.Stop:
		l.send(a.Proc.Slot.Host, &ToAgent{Stop: &a})
	case elastic.Form:
		l.form(ctx, a)
	case elastic.Synced:
		l.broadcast(&ToAgent{Synced: &a})
	case elastic.Notify:
		l.broadcast(&ToAgent{Notify: &Notify{a, l.notices.next(a.Generation, time.Now())}})
	case elastic.Break:
		l.log.Info("ring broken", "generation", a.Generation)
		l.broadcast(&ToAgent{Break: &a})
	case elastic.ReleaseHost:
		if h := l.hosts[a.Host]; h != nil {
			h.dismissed = true
		}
		l.send(a.Host, &ToAgent{Dismiss: &a})
	case elastic.End:
		l.end(ctx, a)
	case elastic.TaskEvent:
		if a.Host != "" {
			l.send(a.Host, &ToAgent{Story: &a})
		} else {
			l.broadcast(&ToAgent{Story: &a})
		}
	}
}

// form asks for consent to a new ring and sends it out.
func (l *Leader) form(ctx context.Context, a elastic.Form) {
	id := ringID(&a.Ring)
	if fresh := id.Term == l.o.Term && id != l.consented; fresh {
		if l.o.Consent != nil {
			var allocs []string
			for _, h := range a.Ring.Hosts() {
				if m := l.hosts[h]; m != nil {
					allocs = append(allocs, m.alloc)
				}
			}
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			err := l.o.Consent.Form(ctx, a.Ring.Generation, allocs)
			cancel()
			if err != nil {
				l.failed = fmt.Errorf("%w: generation %d: %w", errNoConsent, a.Ring.Generation, err)
				return
			}
		}
		l.consented = id
		l.log.Info("ring formed", "generation", id.Generation, "size", len(a.Ring.Members), "hosts", len(a.Ring.Hosts()))
		l.ledger.form(&a.Ring, time.Now())
		l.wasUp = false
	}
	l.followRing()
	m := &ToAgent{Form: cloneRing(&a.Ring)}
	if a.Hosts == nil {
		l.broadcast(m)
		return
	}
	for _, h := range a.Hosts {
		l.send(h, m)
	}
}

func (l *Leader) end(ctx context.Context, a elastic.End) {
	if l.ended == nil && a.Success && l.o.Record != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := l.o.Record.record(ctx, a.Reason); err != nil {
			l.log.Warn("completion is not recorded: an allocation placed later would train again", "error", err)
		}
		cancel()
	}
	l.ended = &a
	l.publish()
	l.broadcast(&ToAgent{End: &a})
}

// tellResize tells each host of the ring about it.
func (l *Leader) tellResize(r *Resize) {
	ring := l.machine.Last()
	if r == nil || ring == nil || ring.Generation != r.Generation {
		return
	}
	ranks := map[elastic.HostID][2]int{}
	for i, m := range ring.Members {
		h := m.Proc.Slot.Host
		if x, ok := ranks[h]; ok {
			ranks[h] = [2]int{x[0], i}
		} else {
			ranks[h] = [2]int{i, i}
		}
	}
	for h, x := range ranks {
		text := fmt.Sprintf("ring %d: rank %d of %d", r.Generation, x[0], r.To)
		if x[0] != x[1] {
			text = fmt.Sprintf("ring %d: ranks %d-%d of %d", r.Generation, x[0], x[1], r.To)
		}
		if r.Cause != "start" {
			text += fmt.Sprintf(", was %d, gap %.2f s", r.From, r.Gap)
		}
		if r.LostSteps > 0 {
			text += fmt.Sprintf(", %.0f steps made again", r.LostSteps)
		}
		l.send(h, &ToAgent{Story: &elastic.TaskEvent{Host: h, Text: text}})
	}
	l.publish()
}

// publish renews the status and sends it to every host.
func (l *Leader) publish() {
	c := l.o.Config
	now := time.Now()
	p := l.ledger.newest()
	s := &Status{Job: c.JobID, Namespace: c.Namespace, Service: c.Service, Leader: c.AllocID, PeerAuth: l.o.PeerAuth, Term: l.o.Term,
		Phase: "waiting", Hosts: len(l.hosts), MinNP: c.MinNP, MaxNP: c.MaxNP, Resets: l.machine.Resets(),
		Step: p.Step, Samples: p.Samples, Epoch: p.Epoch, TotalSteps: p.TotalSteps, Loss: p.Loss, ProgressAt: p.At,
		StepSeconds: l.ledger.stepSeconds(), Resizes: l.ledger.resizes, Updated: seconds(now), Ranks: []Rank{}}
	if !l.quorum.OK {
		s.Hold = l.quorum.Reason
	}
	if last := l.machine.Last(); last != nil {
		s.Generation = last.Generation
	}
	if r := l.machine.Ring(); r != nil {
		s.Phase, s.Size = "resizing", len(r.Members)
		if l.machine.Up() {
			s.Phase = "training"
		}
		for i, m := range r.Members {
			rank := Rank{Rank: i, Host: string(m.Proc.Slot.Host), Slot: m.Proc.Slot.Local}
			if h := l.hosts[m.Proc.Slot.Host]; h != nil {
				rank.AllocID = h.alloc
			}
			s.Ranks = append(s.Ranks, rank)
		}
	}
	if l.ended != nil {
		s.Phase, s.Complete, s.Outcome = "finished", l.ended.Success, l.ended.Reason
	}
	l.status, l.statusAt = s, now
	l.broadcast(&ToAgent{Status: s})
}

// Quiet waits until no host but this leader's own has a session, at most d.
func (l *Leader) Quiet(own elastic.HostID, d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		c := make(chan int, 1)
		l.post(func() {
			n := 0
			for id, m := range l.hosts {
				if id != own && m.session != nil {
					n++
				}
			}
			c <- n
		})
		select {
		case n := <-c:
			if n == 0 {
				return
			}
		case <-l.quit:
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sendQueue lets the leader's goroutine send without waiting for a slow host,
// and lets the host know that the leader is there, however busy it is.
type sendQueue struct {
	s      hostSession
	queue  chan *ToAgent
	done   chan struct{}
	closed chan struct{}
}

var errSlow = errors.New("host does not keep up")

func newSendQueue(s hostSession) *sendQueue {
	q := &sendQueue{s: s, queue: make(chan *ToAgent, 1024), done: make(chan struct{}), closed: make(chan struct{}, 1)}
	go func() {
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for {
			m := &ToAgent{}
			select {
			case <-q.done:
				return
			case m = <-q.queue:
			case <-tick.C:
			}
			if err := s.send(m); err != nil {
				s.close()
				return
			}
		}
	}()
	return q
}

func (q *sendQueue) send(m *ToAgent) error {
	select {
	case q.queue <- m:
		return nil
	default:
		return errSlow
	}
}

func (q *sendQueue) recv() (*ToLeader, error) { return q.s.recv() }

func (q *sendQueue) close() {
	select {
	case q.closed <- struct{}{}:
		close(q.done)
	default:
	}
	q.s.close()
}
