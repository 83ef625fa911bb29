// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
	"github.com/kolo-nomad/kolo/driver/localpeer"
)

// HostOptions say what a Host needs beyond the agent's Config.
type HostOptions struct {
	Config Config
	// ID is the host's name in rings and, as HOROVOD_HOSTNAME, in Horovod.
	ID elastic.HostID
	// Addr is the service address, at which other machines reach the host's
	// agent.
	Addr string
	// Interface is the network interface for Gloo, empty for Horovod's choice.
	Interface string
	// Hostname is the machine's name as slots shall see it, empty for what it
	// is; see HostnameFor.
	Hostname string
	// Prefix is put before the slot's number in each line of output.
	Prefix         string
	Stdout, Stderr io.Writer
	Stories        *stories
	Logger         hclog.Logger
	// Alone says whether the registry names no agent of the job, for a host
	// that leaves; nil: always.
	Alone func() bool
}

// Result is how a host ended.
type Result struct {
	Code   int
	Reason string
}

// session is the host's connection to the leader.
type session interface {
	send(*ToLeader) error
	recv() (*ToAgent, error)
	close()
}

// slot is one place for a training process.
type slot struct {
	elastic.SlotReport
	proc     *process
	door     *door
	endpoint *rendezvous.Endpoint
	gate     *slotGate
	target   *rendezvous.NotifyTarget
	asked    bool      // told to stop
	failed   time.Time // the last of Failures
	progress progressFile
	latest   Progress
	sent     time.Time // when the leader was told of progress
	unsent   bool      // latest is newer than what it was told
}

// Host runs the slots of one allocation. All its fields belong to the
// goroutine of Run; others hand it functions.
type Host struct {
	o       HostOptions
	log     hclog.Logger
	todo    chan func()
	quit    chan struct{} // closed when Run ends
	spawner *spawner
	peers   *localpeer.Task

	slots     []*slot
	ring      *elastic.Ring
	store     *rendezvous.Store
	meshes    int
	session   session
	notices   noticeTimes
	resets    int
	status    *Status
	completed bool

	leaving  bool
	deadline time.Time
	orphan   time.Time // leaving, and no leader can form a ring, since
	alone    time.Time // and nobody else is there, since
	handed   time.Time // last notice of handOver
	killed   bool      // the deadline came
	result   *Result
	over     bool // the leader ended the job
	warned   map[string]bool
}

// NewHost returns a host with its slots down.
func NewHost(o HostOptions) *Host {
	h := &Host{o: o, log: o.Logger, todo: make(chan func(), 256), quit: make(chan struct{}), warned: map[string]bool{},
		peers: localpeer.NewTask(o.Config.Cgroup, o.Logger.Named("rendezvous"))}
	for range o.Config.Slots {
		h.slots = append(h.slots, &slot{})
	}
	return h
}

// post hands f to the host's goroutine; it is dropped when the host has ended.
func (h *Host) post(f func()) {
	select {
	case h.todo <- f:
	case <-h.quit:
	}
}

// Run works until the job or the host's part in it has ended, or ctx has, and
// returns how. No process of the host is left then.
func (h *Host) Run(ctx context.Context) Result {
	var err error
	if h.spawner, err = newSpawner(h.o.Hostname); err != nil {
		h.o.Stories.tell(err.Error())
	}
	defer h.spawner.close()
	defer close(h.quit)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	stopped := ctx.Done()
	for h.result == nil || !h.allDown() {
		select {
		case f := <-h.todo:
			f()
		case <-poll.C:
			h.poll()
		case <-stopped:
			h.end(Result{Code: 1, Reason: ctx.Err().Error()}, true)
			stopped = nil
		}
	}
	if h.store != nil {
		h.store.Close()
	}
	return *h.result
}

func (h *Host) allDown() bool {
	for _, s := range h.slots {
		if s.State != elastic.Down {
			return false
		}
	}
	return true
}

// end decides the host's result and stops what still runs.
func (h *Host) end(r Result, kill bool) {
	if h.result == nil {
		h.result = &r
	}
	for _, s := range h.slots {
		h.stopSlot(s, kill)
	}
}

func (h *Host) stopSlot(s *slot, kill bool) {
	if s.State != elastic.Down {
		s.asked = true
		s.proc.stop(kill)
	}
}

// Leave says that the task is being stopped and how long it may take. The
// slots go on until the ring has let them go. Said again, the earlier end
// counts: Nomad may stop a task that something else has signalled before.
func (h *Host) Leave(timeout time.Duration) {
	h.post(func() {
		deadline := time.Now().Add(timeout)
		if h.leaving && !deadline.Before(h.deadline) {
			return
		}
		h.leaving, h.deadline = true, deadline
		h.send(&ToLeader{Leaving: &Leaving{In: timeout.Seconds()}})
	})
}

// Resize changes the number of slots the host offers. Those above it go on
// until the ring has let them go.
func (h *Host) Resize(slots int) {
	h.post(func() {
		for len(h.slots) < slots {
			h.slots = append(h.slots, &slot{})
		}
	})
}

// ended says, once Run has returned, whether the leader ended the whole job.
func (h *Host) ended() bool { return h.over }

// Signal passes a signal on to every slot.
func (h *Host) Signal(sig syscall.Signal) {
	h.post(func() {
		for _, s := range h.slots {
			if s.State != elastic.Down {
				s.proc.signal(sig)
			}
		}
	})
}

// Attach makes s the host's session with the leader: the host tells all it
// knows and then follows the leader's messages until the session breaks.
func (h *Host) Attach(s session) error {
	defer s.close()
	h.post(func() {
		h.session = s
		if err := s.send(&ToLeader{Register: h.register()}); err != nil {
			h.session = nil
		}
	})
	defer h.post(func() {
		if h.session == s {
			h.session = nil
		}
	})
	for {
		m, err := s.recv()
		if err != nil {
			return err
		}
		h.post(func() {
			if h.session == s {
				h.handle(m)
			}
		})
	}
}

// Status returns the newest status of the job that the host has heard of.
func (h *Host) Status(ctx context.Context) *Status {
	c := make(chan *Status, 1)
	h.post(func() { c <- h.status })
	select {
	case s := <-c:
		if s == nil {
			return nil
		}
		own := *s // the leader sent the same to every host
		own.AllocID = h.o.Config.AllocID
		return &own
	case <-ctx.Done():
	case <-h.quit:
	}
	return nil
}

func (h *Host) register() *Register {
	info := elastic.HostInfo{ID: h.o.ID, Group: h.o.Config.Group, Index: h.o.Config.Index,
		Ring: cloneRing(h.ring), Resets: h.resets, Leaving: h.leaving, Completed: h.completed}
	for _, s := range h.slots {
		report := s.SlotReport
		if s.Failures > 0 {
			report.FailedAgo = time.Since(s.failed).Seconds()
		}
		info.Slots = append(info.Slots, report)
	}
	r := &Register{Info: info, AllocID: h.o.Config.AllocID, Addr: h.o.Addr, Status: h.status, Noticed: h.notices.last}
	if h.store != nil {
		r.Keys = h.store.Snapshot()
	}
	if h.leaving {
		r.LeaveIn = time.Until(h.deadline).Seconds()
	}
	return r
}

// send tells the leader; without one, it will hear at registration.
func (h *Host) send(m *ToLeader) {
	if h.session == nil {
		return
	}
	if err := h.session.send(m); err != nil {
		h.session.close()
		h.session = nil
	}
}

func (h *Host) proc(local int) elastic.Proc {
	return elastic.Proc{Slot: elastic.SlotID{Host: h.o.ID, Local: local}, Incarnation: h.slots[local].Incarnation}
}

// find returns the slot that runs p now, nil when it is gone or not ours.
func (h *Host) find(p elastic.Proc) *slot {
	if p.Slot.Host != h.o.ID || p.Slot.Local >= len(h.slots) {
		return nil
	}
	s := h.slots[p.Slot.Local]
	if s.State == elastic.Down || s.Incarnation != p.Incarnation {
		return nil
	}
	return s
}

func (h *Host) handle(m *ToAgent) {
	switch {
	case m.Start != nil:
		h.start(*m.Start)
	case m.Stop != nil:
		if s := h.find(m.Stop.Proc); s != nil {
			h.log.Debug("stopping slot", "slot", m.Stop.Proc, "reason", m.Stop.Reason)
			h.stopSlot(s, m.Stop.Kill)
		}
	case m.Form != nil:
		h.form(m.Form)
	case m.Notify != nil:
		h.notify(*m.Notify)
	case m.Break != nil:
		h.breakRing(m.Break.Generation)
	case m.Synced != nil:
		for _, s := range h.slots {
			if s.Generation == m.Synced.Generation && s.SyncedSince == 0 {
				s.SyncedSince = m.Synced.Generation
			}
		}
	case m.Fill != nil:
		if h.store != nil && m.Fill.Ring == ringID(h.ring) {
			if err := h.store.Fill(m.Fill.Fill); err != nil {
				h.log.Error("rendezvous", "ring", m.Fill.Ring.Generation, "error", err)
			}
		}
	case m.Story != nil:
		h.o.Stories.tell(m.Story.Text)
	case m.Status != nil:
		h.status = m.Status
	case m.Dismiss != nil:
		code := 0
		if m.Dismiss.Failed {
			code = 1
		}
		h.end(Result{Code: code, Reason: m.Dismiss.Reason}, true)
	case m.End != nil:
		h.over = true
		code := 1
		if m.End.Success {
			code = 0
			h.completed = true
		}
		h.end(Result{Code: code, Reason: m.End.Reason}, false)
	}
}

// start starts a process with its place in a ring to come.
func (h *Host) start(a elastic.Start) {
	local := a.Proc.Slot.Local
	if a.Proc.Slot.Host != h.o.ID || local >= len(h.slots) || h.result != nil {
		return
	}
	s := h.slots[local]
	if s.State != elastic.Down || a.Proc.Incarnation <= s.Incarnation {
		return // told twice
	}
	*s = slot{SlotReport: elastic.SlotReport{State: elastic.Starting, Incarnation: a.Proc.Incarnation,
		Assignment: a.Assignment, Failures: s.Failures, Surrogate: a.Surrogate}, failed: s.failed}
	d := &door{proc: a.Proc, standIn: a.Surrogate}
	d.arrived = func() { h.post(func() { h.arrived(d) }) }
	d.waiting = func(gen uint64) { h.post(func() { h.waiting(d, gen) }) }
	d.notifiable = func(t rendezvous.NotifyTarget) { h.post(func() { h.notifiable(d, t) }) }
	s.door = d
	if a.Generation > 0 { // takes the place of one that died while its ring formed
		m := h.ring.Find(a.Proc.Slot)
		if m == nil || h.ring.Generation != a.Generation {
			h.down(s, elastic.SlotExited{Proc: a.Proc, Status: "it has no place in the ring"})
			return
		}
		m.Proc = a.Proc
		if m.SyncedSince != a.Generation {
			m.SyncedSince = 0
		}
		h.letIn(s, m)
	}
	if err := h.spawn(s, a); err != nil {
		h.o.Stories.tell(fmt.Sprintf("slot %d can't be started: %v", local, err))
		h.down(s, elastic.SlotExited{Proc: a.Proc, Status: err.Error()})
	}
}

func (h *Host) spawn(s *slot, a elastic.Start) error {
	local := a.Proc.Slot.Local
	s.gate = h.newGate(local)
	ep, err := rendezvous.Listen(s.door, s.gate, h.log.Named("rendezvous"))
	if err != nil {
		s.gate.close()
		return fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	s.endpoint = ep
	name := fmt.Sprintf("slot-%d.%d", local, a.Proc.Incarnation)
	s.progress, err = newProgressFile(filepath.Join(h.o.Config.ProgressDir, fmt.Sprintf("progress-%d.jsonl", local)))
	if err != nil {
		return err
	}
	logFile := ""
	if h.o.Config.LogDir != "" {
		logFile = filepath.Join(h.o.Config.LogDir, name+".log")
	}
	p, err := h.spawner.start(processSpec{
		command: h.o.Config.Command, args: h.o.Config.Args, dir: h.o.Config.Dir,
		env:    h.environment(a.Assignment, ep.Port(), s.progress.path, a.Proc.Incarnation),
		prefix: fmt.Sprintf("[%s%d] ", h.o.Prefix, local),
		log:    logFile, stdout: h.o.Stdout, stderr: h.o.Stderr,
		watch: func(line string) { h.watchLine(local, line) },
	})
	if err != nil {
		return err
	}
	s.proc = p
	h.log.Debug("slot started", "slot", a.Proc, "rank", a.Assignment.Rank, "size", a.Assignment.Size, "pid", p.pid())
	go func() {
		<-p.done
		h.post(func() { h.exited(s, p, a.Proc) })
	}()
	return nil
}

// watchLine looks for what Horovod says of a collective that does not come to
// an end, and tells the user once per slot and kind.
func (h *Host) watchLine(local int, line string) {
	if !strings.Contains(line, "Stalled ops:") && !strings.Contains(line, "waiting for remainder of ranks") {
		return
	}
	h.post(func() {
		key := fmt.Sprintf("stall-%d-%d", local, h.slots[local].Generation)
		if !h.warned[key] {
			h.warned[key] = true
			h.o.Stories.tell(fmt.Sprintf("slot %d: a collective has stalled, some ranks have not submitted their tensors: %s", local, strings.TrimSpace(line)))
		}
	})
}

// exited takes in the end of a process.
func (h *Host) exited(s *slot, p *process, id elastic.Proc) {
	if s.proc != p {
		return
	}
	ev := elastic.SlotExited{Proc: id}
	ev.Success, ev.Aborted, ev.Status = p.status()
	if !s.asked && p.killed() {
		// An isolated task does not see its cgroup, which would tell for sure.
		ev.Status += ", most often because the task's memory (resources { memory }) is used up"
	}
	if words := p.lastWords(); !ev.Success && words != "" && !s.asked {
		ev.Status += ": " + words
	}
	if ev.Success && s.State == elastic.InRing && !s.asked {
		h.completed = true
	}
	if !ev.Success && !ev.Aborted && !s.asked {
		s.Failures = elastic.Forgive(s.Failures, time.Since(s.failed)) + 1
		s.failed = time.Now()
	}
	h.drain(s)
	h.down(s, ev)
}

// down notes that a slot has no process and tells the leader.
func (h *Host) down(s *slot, ev elastic.SlotExited) {
	m := &Exited{SlotExited: ev, Ring: ringID(h.ring)}
	if s.State == elastic.InRing && !s.Up && h.store != nil && h.ring.Generation == s.Generation {
		if mem := h.ring.Find(ev.Proc.Slot); mem != nil {
			m.Withdrawn, m.Visible = h.store.Withdraw(mem.Assignment.Rank)
		}
	}
	if s.endpoint != nil {
		_ = s.endpoint.Close()
		s.gate.close()
	}
	*s = slot{SlotReport: elastic.SlotReport{Incarnation: ev.Proc.Incarnation, Failures: s.Failures}, failed: s.failed}
	h.send(&ToLeader{Exited: m})
	if h.leaving && h.session == nil && h.allDown() {
		h.end(Result{Reason: "the task was stopped"}, true)
	}
}

// arrived: the process has sent its first request and is held.
func (h *Host) arrived(d *door) {
	s := h.find(d.proc)
	if s == nil || s.door != d || s.State != elastic.Starting {
		return
	}
	s.State = elastic.Arrived
	h.send(&ToLeader{Arrived: &elastic.SlotArrived{Proc: d.proc}})
	h.tryLetIn(s, d.proc.Slot)
}

// waiting: the process has left its ring and asks for its next rank.
func (h *Host) waiting(d *door, gen uint64) {
	s := h.find(d.proc)
	if s == nil || s.door != d {
		return
	}
	h.drain(s) // what it reported so far belongs to the ring it left
	if s.latest.FirstAt > 0 {
		last := s.latest
		h.send(&ToLeader{Progress: &last})
	}
	s.State, s.Up = elastic.Waiting, false
	h.send(&ToLeader{Waiting: &elastic.SlotWaiting{Proc: d.proc, Generation: gen}})
	h.tryLetIn(s, d.proc.Slot)
}

func (h *Host) notifiable(d *door, t rendezvous.NotifyTarget) {
	if s := h.find(d.proc); s != nil && s.door == d {
		s.target, s.Notifiable = &t, true
		h.send(&ToLeader{Notifiable: &elastic.SlotNotifiable{Proc: d.proc}})
	}
}

// form takes in a ring, and lets the held processes that belong to it in.
func (h *Host) form(r *elastic.Ring) {
	if h.ring.Newer(r) {
		return
	}
	if ringID(h.ring) != ringID(r) {
		if h.store != nil {
			h.meshes = h.store.Meshes()
			h.store.Close()
			h.store = nil
		}
		if h.ring != nil {
			h.resets++
		}
		h.ring = cloneRing(r)
		h.openStore()
	}
	for l, s := range h.slots {
		h.tryLetIn(s, elastic.SlotID{Host: h.o.ID, Local: l})
	}
}

// openStore begins the rendezvous of the present ring, if the host has a part
// in it.
func (h *Host) openStore() {
	m := rendezvous.Members{Meshes: h.meshes}
	for _, mem := range h.ring.Members {
		m.Slots = append(m.Slots, rendezvous.Slot{Host: string(mem.Proc.Slot.Host), Assignment: rendezvous.Assignment(mem.Assignment)})
		if mem.Proc.Slot.Host == h.o.ID {
			m.Local = append(m.Local, mem.Assignment.Rank)
		}
	}
	if len(m.Local) == 0 {
		return
	}
	store, err := rendezvous.NewStore(m)
	if err != nil {
		h.log.Error("ring refused", "generation", h.ring.Generation, "error", err)
		return
	}
	h.store = store
	id := ringID(h.ring)
	go func() {
		for {
			select {
			case <-h.quit:
				return
			case _, ok := <-store.News():
				if !ok {
					return
				}
				h.post(func() { h.news(store, id) })
			}
		}
	}()
}

// news carries what local processes stored to the leader, and notices who is
// through.
func (h *Host) news(store *rendezvous.Store, id RingID) {
	if h.store != store {
		return
	}
	if puts := store.Outgoing(); len(puts) > 0 {
		h.send(&ToLeader{Puts: &Puts{Ring: id, Puts: puts}})
	}
	for l, s := range h.slots {
		p := h.proc(l)
		if s.State != elastic.InRing || s.Up || s.Generation != id.Generation || s.Surrogate {
			continue
		}
		if mem := h.ring.Find(p.Slot); mem != nil && store.Up(mem.Assignment.Rank) {
			s.Up = true
			h.send(&ToLeader{Up: &elastic.SlotUp{Proc: p, Generation: id.Generation}})
		}
	}
}

// tryLetIn lets a held process into the present ring if it belongs to it.
func (h *Host) tryLetIn(s *slot, id elastic.SlotID) {
	if s.State != elastic.Arrived && s.State != elastic.Waiting || h.ring == nil || h.store == nil || s.Generation >= h.ring.Generation {
		return
	}
	m := h.ring.Find(id)
	if m == nil || m.Proc.Incarnation != s.Incarnation {
		return
	}
	if s.State == elastic.Arrived && s.Assignment != m.Assignment {
		h.log.Error("started for another place", "slot", id, "started", s.Assignment, "ring", m.Assignment)
		return
	}
	h.letIn(s, m)
}

func (h *Host) letIn(s *slot, m *elastic.Member) {
	s.State, s.Generation, s.Up, s.SyncedSince = elastic.InRing, h.ring.Generation, false, m.SyncedSince
	s.latest, s.unsent = Progress{}, false
	s.door.admit(&seat{ring: ringID(h.ring), assignment: m.Assignment, store: h.store})
}

// notify tells a process that hosts changed, if it is one of this host.
func (h *Host) notify(a Notify) {
	h.notices.heard(a.Timestamp)
	s := h.find(a.Proc)
	if s == nil || s.target == nil || s.State != elastic.InRing || s.Generation != a.Generation {
		return
	}
	target, ts := *s.target, a.Timestamp
	if ts == 0 {
		ts = h.notices.next(a.Generation, time.Now())
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := target.Notify(ctx, ts); err != nil && !errors.Is(err, context.Canceled) {
			h.log.Debug("notice not delivered", "slot", a.Proc, "error", err)
		}
	}()
}

// breakRing cuts the connections of processes that are still in a broken ring.
func (h *Host) breakRing(gen uint64) {
	for l, s := range h.slots {
		if s.State != elastic.InRing || s.Generation != gen || !s.Up {
			continue
		}
		d, p, id := s.door, s.proc, h.proc(l)
		go func() {
			addrs, g := d.gloo()
			if g != gen || len(addrs) == 0 {
				return
			}
			n, err := breakSockets(p.pid(), addrs)
			if err != nil {
				h.log.Warn("can't cut connections, Horovod notices the failure by its time-out", "slot", id, "error", err)
				return
			}
			h.log.Debug("connections cut", "slot", id, "generation", gen, "connections", n)
		}()
	}
}

// poll looks at progress files and at the deadline.
func (h *Host) poll() {
	for _, s := range h.slots {
		if s.State == elastic.InRing {
			h.drain(s)
		}
	}
	if h.leaving && !h.killed && time.Now().After(h.deadline) {
		h.killed = true
		h.o.Stories.tell("the ring did not let this host go in time (kill_timeout); its slots are stopped, training goes back to the last commit")
		h.end(Result{Reason: "the task was stopped"}, false)
	}
	if h.leaving && h.allDown() && h.session == nil {
		h.end(Result{Reason: "the task was stopped"}, true)
	}
	h.handOver()
}

// How long a host that leaves waits for a leader, and the last one for others.
const (
	orphanWait = 2 * time.Second
	aloneWait  = 6 * time.Second
)

// handOver is what hosts do when all of a job's are stopped at once. Nomad has
// then taken them from the registry, so none of them may lead, and it starts an
// allocation's successor only when the allocation has ended
// (nomad/client/allocwatcher). So the ring is ended at its next commit, all but
// the host of rank 0 go, and that one keeps the state until their successors
// have come and elected a leader, or it is clear that nobody comes.
func (h *Host) handOver() {
	led := h.session != nil && (h.status == nil || h.status.Hold == "")
	if !h.leaving || led || h.result != nil {
		h.orphan, h.alone = time.Time{}, time.Time{}
		return
	}
	now := time.Now()
	if h.orphan.IsZero() {
		h.orphan = now
	}
	if now.Sub(h.orphan) < orphanWait {
		return
	}
	var root *elastic.Member
	if h.ring != nil && h.ring.Members[0].Proc.Slot.Host == h.o.ID {
		root = &h.ring.Members[0]
	}
	training := false
	for _, s := range h.slots {
		training = training || s.State == elastic.InRing
	}
	switch {
	case training && root != nil:
		if now.Sub(h.handed) > time.Second {
			h.handed = now
			h.notify(Notify{Notify: elastic.Notify{Proc: root.Proc, Generation: h.ring.Generation}})
		}
	case training:
	case root == nil || h.allDown():
		h.end(Result{Reason: "the task was stopped; the host of rank 0 keeps the training state for those who come"}, true)
	case h.o.Alone != nil && !h.o.Alone():
		h.alone = time.Time{}
	case h.alone.IsZero():
		h.alone = now
	case now.Sub(h.alone) > aloneWait:
		h.end(Result{Reason: "all of the job's tasks were stopped"}, true)
	}
}

// drain reads new progress lines of a slot. The first of a ring is told at
// once, it shows that the ring trains; later ones every second.
func (h *Host) drain(s *slot) {
	if s.progress.path == "" {
		return
	}
	lines := s.progress.read()
	if s.State != elastic.InRing {
		return
	}
	first := len(lines) > 0 && s.latest.FirstAt == 0
	if len(lines) > 0 {
		s.take(lines)
	}
	if first || s.unsent && time.Since(s.sent) >= time.Second {
		s.sent, s.unsent = time.Now(), false
		p := s.latest
		h.send(&ToLeader{Progress: &p})
	}
}

// take makes new lines the slot's progress in the present ring.
func (s *slot) take(lines []Progress) {
	before := s.latest
	if before.FirstAt == 0 {
		before = Progress{First: lines[0].Step, FirstSamples: lines[0].Samples, FirstAt: lines[0].At}
	}
	step := before.Step
	for _, l := range lines { // a line may be about something else
		step = cmp.Or(l.Step, step)
	}
	s.latest, s.unsent = lines[len(lines)-1], true
	s.latest.Step = step
	s.latest.Generation, s.latest.First, s.latest.FirstSamples, s.latest.FirstAt = s.Generation, before.First, before.FirstSamples, before.FirstAt
}
