// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// Options configure a Host.
type Options struct {
	Config config.Config
	// Framework is the framework of the training processes.
	Framework Framework
	// ID is the host's name in rings.
	ID elastic.HostID
	// Addr is the service address at which other machines reach the host's agent.
	Addr string
	// Hostname is the machine's name for its slots; if empty, the real one. See
	// hostnet.NameFor.
	Hostname string
	// Prefix precedes the slot's number in each line of output.
	Prefix         string
	Stdout, Stderr io.Writer
	Events         *events.Log
	Logger         hclog.Logger
	// Program is the agent's own program, whose subcommand inspect.Subcommand takes stacks. If
	// it is empty, no stacks are taken of a ring that makes no steps.
	Program string
	// LastHost reports whether the registry names no agent of the job. A leaving host calls
	// it. If it is nil, the host behaves as if it returned true.
	LastHost func() bool
}

// Result states how a host ended.
type Result struct {
	Code   int
	Reason string
	// Completed states that the leader ended the job as complete. A Code of 0 does not show
	// that, because a host that left has it, too.
	Completed bool
}

// Host runs the slots of one allocation. All its fields belong to the goroutine of Run;
// other goroutines post functions to it.
type Host struct {
	o       Options
	log     hclog.Logger
	todo    chan func()
	life    context.Context // ends with Run
	quit    context.CancelFunc
	tasks   sync.WaitGroup // Run waits for these after that
	spawner *process.Spawner
	peers   *localpeer.Task

	slots       []*slot // with standbys, two for each; see places
	width       int     // slots from here on are standbys; 0: there are none
	ring        *elastic.Ring
	exchange    Exchange
	session     Session
	notices     wire.NotifyClock
	resets      int
	status      *wire.Status
	keepsBatch  bool // the job must not adapt its batch
	completed   bool
	completedIn uint64      // ring of the process that has completed it; see elastic.HostInfo
	restarts    atomic.Bool // processes can't change their ring
	watching    *watching   // nil unless the leader asked what the processes do
	inspecting  bool        // stacks are being taken for the leader
	requested   uint64      // generation of the last ring that was notified, as far as the host knows; see elastic.HostInfo.Noticed

	leaving    bool
	deadline   time.Time
	leaderless time.Time // since when the host leaves without a leader that can form a ring
	lastHost   time.Time // since when it also is the only host
	drained    time.Time // time of drainWithoutLeader's last notice
	killed     bool      // the deadline has passed
	result     *Result
	over       bool // the leader ended the job
	warned     map[string]bool

	listed   inspect.Ranks // the list of ranks that was written last, at listedAt
	listedAt time.Time

	oomFile  string // of this cgroup; see cgroup.OOMFile
	oomKills int    // kills counted in it at the last look
}

// New returns a host whose slots are all down.
func New(o Options) *Host {
	h := &Host{o: o, log: o.Logger, todo: make(chan func(), 256), warned: map[string]bool{},
		peers: localpeer.NewTask(o.Config.Cgroup, o.Logger.Named("rendezvous"))}
	h.life, h.quit = context.WithCancel(context.Background())
	h.oomFile = cgroup.OOMFile()
	h.oomKills = cgroup.OOMKills(h.oomFile)
	h.slots = h.places(o.Config.Slots)
	return h
}

// post runs f on the host's goroutine. If the host has ended, f is dropped.
func (h *Host) post(f func()) {
	select {
	case h.todo <- f:
	case <-h.life.Done():
	}
}

// tellTimeout bounds one call of tell.
const tellTimeout = 5 * time.Second

// tell calls f, which sends a process a notice, with a context that ends with the host or
// after tellTimeout.
func (h *Host) tell(f func(context.Context)) {
	h.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(h.life, tellTimeout)
		defer cancel()
		f(ctx)
	})
}

// Run runs the host until the job ends, the host may leave the job, or ctx ends. It returns
// how the host ended. No process of the host is left when it returns.
func (h *Host) Run(ctx context.Context) Result {
	var err error
	if h.spawner, err = process.NewSpawner(h.o.Hostname); err != nil {
		h.o.Events.Emit(err.Error())
	}
	defer h.spawner.Close()
	defer h.tasks.Wait()
	defer h.quit()
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
	if h.exchange != nil {
		h.exchange.Close()
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

// end sets the host's result and stops everything that still runs.
func (h *Host) end(r Result, kill bool) {
	if h.result == nil {
		h.result = &r
	}
	for _, s := range h.slots {
		h.stopSlot(s, kill)
	}
}

// Resize changes the number of slots that the host offers. Slots above the new number run
// until the ring has released them. Resize is only for processes that can change their
// ring, because afterwards the host has no standbys.
func (h *Host) Resize(slots int) {
	h.post(func() {
		h.width = 0
		for len(h.slots) < slots {
			h.slots = append(h.slots, &slot{})
		}
	})
}

// Ended reports, once Run has returned, whether the leader ended the whole job.
func (h *Host) Ended() bool { return h.over }

// Restarts reports whether any process of the host has reported that it can't change its
// ring. It never becomes false again.
func (h *Host) Restarts() bool { return h.restarts.Load() }

// Signal passes a signal on to every slot.
func (h *Host) Signal(sig syscall.Signal) {
	h.post(func() {
		for _, s := range h.slots {
			if s.proc != nil {
				s.proc.Signal(sig)
			}
		}
	})
}

// Status returns the newest status of the job that the host knows.
func (h *Host) Status(ctx context.Context) *wire.Status {
	c := make(chan *wire.Status, 1)
	h.post(func() { c <- h.status })
	select {
	case s := <-c:
		if s == nil {
			return nil
		}
		own := *s // the leader sent the same to every host
		own.AllocID = h.o.Config.AllocID
		own.Events = h.events()
		return &own
	case <-ctx.Done():
	case <-h.life.Done():
	}
	return nil
}

// events returns the latest events if no task driver shows them, else nil.
func (h *Host) events() (list []wire.Event) {
	if h.o.Config.EventFile != "" {
		return nil
	}
	for _, e := range h.o.Events.Recent() {
		list = append(list, wire.Event{Time: wire.Seconds(e.Time), Message: e.Message})
	}
	return list
}

func (h *Host) proc(local int) elastic.Proc {
	return elastic.Proc{Slot: elastic.SlotID{Host: h.o.ID, Local: local}, Incarnation: h.slots[local].Incarnation}
}

// find returns the slot that runs p now, or nil if p is gone or belongs to another host.
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
