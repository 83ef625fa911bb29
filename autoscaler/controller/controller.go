// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/leader"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Source has the policies that are not built in; package plugin has one. A
// policy of it may have a method TryAllocate that returns an error.
type Source interface {
	Policy(name string) (policy.Policy, error)
}

// Controller is the control loop of one agent.
type Controller struct {
	log     hclog.Logger
	client  *cluster.Client
	watcher *cluster.Watcher
	writer  *cluster.Writer
	lock    *leader.Variable
	elector *leader.Elector
	prober  *cluster.Prober
	own     Source // nil for none
	metrics *Metrics
	audit   *audit.Log
	callers *callers

	// protectAfter is how long a job waits before it is protected from
	// garbage collection.
	protectAfter time.Duration

	wake   chan struct{}  // something other than Nomad changed
	asking sync.WaitGroup // questions to policies that are under way
	dump   chan struct{}  // the ledger should be saved soon

	wishing sync.Mutex // held from reading the control until a wish is in force

	mu      sync.Mutex
	cfg     *config.Config
	control Control
	// controlAt is the index of control in Nomad.
	controlAt uint64
	vault     *vault
	ledger    *Ledger
	policies  map[string]*pool // by node pool
	lastView  *cluster.View
	lastTime  time.Time
	reported  map[planner.JobKey]string // problems told
	untold    []api.Event               // of the round that is being made
	term      uint64                    // counts leaderships
	loaded    uint64                    // term the ledger was loaded in
	status    *api.Status
	self      leader.Holder
	holder    leader.Holder // of the lock, as far as is known
	watchers  map[chan api.Event]struct{}
	decided   time.Time // of the last complete round
}

// New makes a controller. own may be nil.
func New(cfg *config.Config, own Source, log hclog.Logger) (*Controller, error) {
	client, err := cluster.NewClient(cfg.Nomad)
	if err != nil {
		return nil, err
	}
	a := &Controller{
		log: log, client: client, cfg: cfg, own: own,
		watcher:      cluster.NewWatcher(client, cfg.Nomad.Resync, log.Named("cluster")),
		prober:       cluster.NewProber(client, 2*time.Second),
		audit:        audit.New(log, "agent "+cfg.Name),
		callers:      newCallers(client),
		protectAfter: time.Minute,
		wake:         make(chan struct{}, 1), dump: make(chan struct{}, 1),
		ledger: NewLedger(), policies: map[string]*pool{}, reported: map[planner.JobKey]string{}, watchers: map[chan api.Event]struct{}{},
	}
	a.vault = &vault{client: client.Client, namespace: cfg.Leader.Namespace, audit: a.audit, saved: map[string]string{}}
	a.metrics = newMetrics(a)
	a.self.Name = cfg.Name
	a.self.Machine, _ = os.Hostname() // without it, others do not take this machine for theirs
	a.lock = leader.NewVariable(client.Client, cfg.Leader.Namespace, cfg.Leader.Path, a.whoami, cfg.Leader.TTL, cfg.Leader.Delay)
	a.elector = leader.New(recordedLock{a.lock, cfg.Leader.Path, a.audit}, cfg.Leader.TTL, log.Named("leader"))
	a.writer = cluster.NewWriter(a.watcher, cfg.Nomad.WritesPerSecond, a.elector.Check, a.audit)
	a.status = &api.Status{Agent: cfg.Name}
	return a, nil
}

// Run works until the context ends. It returns after the policies have, which
// their Source may hasten.
func (a *Controller) Run(ctx context.Context) error {
	defer a.asking.Wait()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.watcher.Run(ctx) })
	g.Go(func() error { return a.rounds(ctx) })
	g.Go(func() error { return a.probe(ctx) })
	g.Go(func() error { return a.lookUp(ctx) })
	g.Go(func() error { return a.followControl(ctx) })
	g.Go(func() error {
		a.elector.Run(ctx, a.lead)
		return ctx.Err()
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lead is one term of leadership: it loads what the last leader saved, lets
// rounds write, and saves the ledger now and then and at the end.
func (a *Controller) lead(ctx context.Context) {
	ledger, control, index := NewLedger(), Control{}, uint64(0)
	for ctx.Err() == nil {
		l, lost, err := a.vault.loadLedger(ctx)
		if err == nil {
			control, index, err = a.vault.loadControl(ctx)
		}
		if err == nil {
			ledger = l
			if lost != nil {
				a.log.Warn("part of the ledger is lost and will be estimated", "error", lost)
			}
			break
		}
		// Acting without knowing what users paused, or saving over what could
		// not be read, would be worse than not acting.
		a.log.Warn("what the last leader saved cannot be read; not acting", "error", err)
		pause(ctx, time.Second)
	}
	if ctx.Err() != nil {
		return
	}
	a.takeControl(control, index)
	a.mu.Lock()
	a.ledger = ledger
	a.term++
	a.loaded = a.term
	a.mu.Unlock()
	a.event(api.Event{Type: "leader", Reason: a.name() + " leads"})
	a.poke()
	defer func() {
		a.mu.Lock()
		a.loaded = 0
		a.mu.Unlock()
		a.event(api.Event{Type: "leader", Reason: a.name() + " leads no more"})
	}()

	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// The lock is still ours for a moment if the agent is being
			// stopped; Check says so.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			a.save(last)
			return
		case <-tick.C:
		case <-a.dump:
		}
		a.save(ctx)
	}
}

// saveEvery bounds what is lost of the ledger when a leader dies: accounting
// only, for what must not be lost is saved at once.
const saveEvery = time.Minute

func (a *Controller) save(ctx context.Context) {
	a.mu.Lock()
	texts, dropped, err := a.ledger.encode()
	a.mu.Unlock()
	if dropped > 0 {
		a.log.Warn("the ledger does not hold all jobs, or not what policies asked for", "dropped", dropped)
	}
	if err == nil {
		err = a.vault.saveLedger(ctx, texts, a.elector.Check)
	}
	if err != nil && !errors.Is(err, leader.ErrNotLeading) {
		a.log.Warn("saving the ledger failed", "error", err)
	}
}

// leading says whether this agent leads and has loaded what it must know.
// The caller holds a.mu.
func (a *Controller) leading() bool { return a.loaded != 0 && a.elector.Check() == nil }

func (a *Controller) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.Name
}

// poke asks for a round.
func (a *Controller) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// rounds makes one round after another.
func (a *Controller) rounds(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.watcher.Changed():
			pause(ctx, a.batch()) // what comes together is planned together
		case <-a.wake:
		case <-next.C:
		}
		wake, err := a.round(ctx)
		switch {
		case errors.Is(err, cluster.ErrNotReady):
			wake = time.Now().Add(time.Second)
		case err != nil && ctx.Err() == nil:
			a.log.Error("round failed", "error", err)
			wake = time.Now().Add(time.Second)
		}
		next.Reset(max(0, time.Until(wake)))
	}
}

func (a *Controller) batch() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.Planner.Batch
}

// Config is the configuration in force.
func (a *Controller) Config() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

// Client is the agent's client of Nomad.
func (a *Controller) Client() *cluster.Client { return a.client }

// Status is the newest status.
func (a *Controller) Status() *api.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := *a.status
	s.Leading, s.Leader = a.leading(), api.Leader{Name: a.holder.Name, Address: a.holder.Address}
	if err := a.watcher.Trouble(); err != nil {
		s.Problem = err.Error()
	}
	return &s
}

// Health returns an error where the agent cannot do its work.
func (a *Controller) Health() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.decided.IsZero():
		if err := a.watcher.Trouble(); err != nil {
			return fmt.Errorf("the cluster's state has not been read yet: %w", err)
		}
		return errors.New("the cluster's state has not been read yet")
	case time.Since(a.decided) > 3*a.cfg.Planner.Tick:
		return fmt.Errorf("no decision since %s", a.decided.Format(time.RFC3339))
	}
	return nil
}

// History is a job's history of counts, as Nomad keeps it.
func (a *Controller) History(ctx context.Context, key planner.JobKey) ([]api.Change, error) {
	changes, err := a.client.History(ctx, key)
	if err != nil {
		return nil, err
	}
	var out []api.Change
	for _, c := range changes {
		out = append(out, api.Change{Time: c.Time, Group: c.Group, From: c.From, To: c.To, Kolo: c.Kolo, Error: c.Error, Message: c.Message})
	}
	return out, nil
}
