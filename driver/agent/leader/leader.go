// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Quorum gives consent to rings; see discovery.Elector. It identifies hosts by their
// allocations.
type Quorum interface {
	Connect(alloc string)
	MayForm(connected []string) (bool, string)
	Form(ctx context.Context, generation uint64, hosts []string) error
}

// Recorder records that training is complete, for allocations that Nomad places later.
type Recorder interface {
	Save(ctx context.Context, reason string) error
}

// Options configure a Leader.
type Options struct {
	Config config.Config
	Term   uint64
	// Floor is the highest generation that may be in use already.
	Floor  uint64
	Quorum Quorum   // nil means that rings need no consent
	Record Recorder // nil means that completion is not recorded
	// Framework describes the training framework to the machine.
	Framework elastic.Framework
	// Exchange returns a new exchange for a ring.
	Exchange func() Exchange
	// Present reports whether an allocation is still registered, and whether the view of
	// the registry is newer than the given time. If Present is nil, only sessions decide.
	Present func(alloc string, after time.Time) (present, fresh bool)
	// Address returns the address of an allocation in the registry, or "". The allocation
	// is given by its ID or a prefix of it. If Address is nil, hosts of an earlier leader's
	// ring are not probed.
	Address func(alloc string) string
	// PeerAuth describes, for the status, how agents authenticate each other.
	PeerAuth string
	// HostTimeout is how long a host may be without a session, 8 s by default.
	HostTimeout time.Duration
	Logger      hclog.Logger
}

// Leader runs the membership machine of a job. Its fields belong to the goroutine of
// Run.
type Leader struct {
	o       Options
	log     hclog.Logger
	ctx     context.Context // Run's, for posted functions: a session's own context ends with the session
	todo    chan func()
	quit    chan struct{}
	machine *elastic.Machine
	hosts   map[elastic.HostID]*member
	givenUp map[elastic.HostID]bool // of the ring, since a host last joined
	quorum  elastic.Quorum

	ring           wire.RingID
	exchange       Exchange
	agreed         wire.RingID
	attestation    *attestation // of the newest round of the ring
	formation      *formation   // nil while no process reports that it is still connecting
	gaveUp         gaveUp
	notices        wire.NotifyClock
	stats          *ringStats
	wasUp          bool
	ended          *elastic.End
	failed         error
	statusAt       time.Time
	stepped        time.Time // time of the last new step of the current ring, by this machine's clock; see checkStall
	auto           autoStall
	last           lastRanks
	stall          *wire.Stall             // the last one, nil if there was none
	inspection     *inspection             // the last one
	inspections    int                     // number of the last one
	stallReported  uint64                  // generation of the ring whose stall was reported
	toldUnattested bool                    // the user was informed that rings are not attested
	mute           map[elastic.HostID]bool // hosts whose agents do not report connections
	scaled         bool                    // the job's counts can be read; see Scaled
	keepsBatch     bool                    // the job must not adapt its batch
	batchStated    bool                    // keepsBatch is not only what an earlier leader knew
	status         *wire.Status
	ranks          int // version of status.Ranks and status.Stall, which grows with each change
}

// ErrRefused means that a ring was refused. The leader must start again from the hosts'
// reports.
var ErrRefused = errors.New("the ring was refused")

// checkpointMargin is added to the time for a checkpoint when the leader waits for the
// processes of a ring that ends, so that their host stops them first.
const checkpointMargin = 10 * time.Second

// New returns the leader of a term.
func New(o Options) *Leader {
	if o.HostTimeout == 0 {
		o.HostTimeout = 8 * time.Second
	}
	c := o.Config
	lost := elastic.Fail
	if c.OnRingLost == "restart" {
		lost = elastic.Restart
	}
	checkpoint := time.Duration(c.Restart.Checkpoint.Wait)
	l := &Leader{o: o, log: o.Logger, todo: make(chan func(), 256), quit: make(chan struct{}),
		hosts: map[elastic.HostID]*member{}, givenUp: map[elastic.HostID]bool{}, mute: map[elastic.HostID]bool{}, stats: newRingStats(nil), quorum: elastic.Quorum{OK: true}}
	l.machine = elastic.New(elastic.Options{
		Framework: o.Framework,
		NP:        c.NP, MinNP: c.MinNP, MaxNP: c.MaxNP, Replica: c.Replica,
		ElasticTimeout: time.Duration(c.ElasticTimeout), Debounce: time.Duration(c.Debounce),
		FinishTimeout: time.Duration(c.FinishTimeout), BarrierTimeout: max(time.Minute, checkpoint+checkpointMargin),
		CommitTimeout: c.CommitLimit(),
		ResetLimit:    c.ResetLimit, SlotRestarts: c.SlotRestarts, OnRingLost: lost, Floor: o.Floor,
		Restarts: c.Restart.Mode == settings.ModeRestart, Spares: c.Restart.Spares > 0, SpareHosts: c.Restart.SpareHosts,
	}, o.Term)
	return l
}

func (l *Leader) post(f func()) {
	select {
	case l.todo <- f:
	case <-l.quit:
	}
}

// Run leads until ctx ends or a ring is refused. The refusal is an error.
func (l *Leader) Run(ctx context.Context) error {
	defer close(l.quit)
	l.ctx = ctx
	defer func() {
		for _, m := range l.hosts {
			if m.session != nil {
				m.session.Close()
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

// Spent returns the highest generation that the leader has used or tried to use. Call it
// after Run has returned.
func (l *Leader) Spent() uint64 {
	if last := l.machine.Last(); last != nil {
		return last.Generation
	}
	return l.o.Floor
}

// Resize changes the number of slots that a host offers.
func (l *Leader) Resize(host elastic.HostID, slots int) {
	l.post(func() { l.step(l.ctx, elastic.HostSlots{Host: host, Slots: slots}) })
}

// Scaled states the sizes of the groups whose sizes are known, nil if it is none, and whether
// the agent may read them.
func (l *Leader) Scaled(groups map[string]elastic.GroupSize, may bool) {
	l.post(func() {
		l.scaled = may
		l.step(l.ctx, elastic.Scaled{Groups: groups})
	})
}

// KeepBatch states whether the job must not adapt its batch. The hosts learn it from the
// status.
func (l *Leader) KeepBatch(keep bool) {
	l.post(func() {
		changed := keep != l.keepsBatch
		l.keepsBatch, l.batchStated = keep, true
		if changed {
			l.publish()
		}
	})
}

// Status returns the current status, or nil if ctx ends first. After the leader has ended,
// it returns the last one.
func (l *Leader) Status(ctx context.Context) *wire.Status {
	c := make(chan *wire.Status, 1)
	l.post(func() { l.publish(); c <- l.status })
	select {
	case s := <-c:
		return s
	case <-l.quit:
		return l.status
	case <-ctx.Done():
		return nil
	}
}

// Attached returns the hosts that are in session now, or none if the leader has ended.
func (l *Leader) Attached() []elastic.HostID {
	c := make(chan []elastic.HostID, 1)
	l.post(func() {
		var ids []elastic.HostID
		for id, m := range l.hosts {
			if m.session != nil {
				ids = append(ids, id)
			}
		}
		c <- ids
	})
	select {
	case ids := <-c:
		return ids
	case <-l.quit:
		return nil
	}
}
