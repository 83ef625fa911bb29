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
	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// Controller is the control loop of one autoscaler.
type Controller struct {
	log      hclog.Logger
	client   *cluster.Client
	watcher  *cluster.Watcher
	writer   *cluster.Writer
	lock     *leader.Variable
	elector  *leader.Elector
	prober   *cluster.Prober
	store    *store.Store
	usage    *store.Usage
	external ExternalPolicies // may be nil
	metrics  *metrics
	audit    *audit.Log

	// protectAfter is how long a job waits before it is protected from
	// garbage collection.
	protectAfter time.Duration

	forecastEvery time.Duration // the constant, except in tests
	gpusEvery     time.Duration // likewise

	wake     chan struct{}  // something other than Nomad changed
	deciding sync.WaitGroup // pending decisions of external policies
	unsaved  chan struct{}  // the history should be saved soon

	readingUsage chan struct{} // has a value while archived usage is read

	saving     sync.Mutex // held while the history is saved
	commanding sync.Mutex // held from reading the overrides until a command is in force

	mu             sync.Mutex
	cfg            *config.Config
	overrides      store.Overrides
	overridesIndex uint64 // in Nomad
	history        *history.History
	jobs           map[identity.JobKey]*job
	policies       map[string]*poolPolicy // by node pool
	loans          loans
	ledger         *usage.Ledger                    // only during a term of leadership
	used           *report.Used                     // counters of the ledger's amounts
	accounted      time.Time                        // when the ledger was last brought up to date
	expected       map[identity.JobKey]api.Expected // starts, by the last forecast
	view           *cluster.View                    // of the last round
	observed       time.Time                        // when the history was last brought up to date
	decided        time.Time                        // of the last complete round
	reported       map[identity.JobKey]string
	events         []api.Event // of the round that is being made
	loaded         bool        // the history of the last leader
	loadedAt       time.Time
	status         *api.Status
	self           leader.Holder
	holder         leader.Holder // of the lock, as far as known
	subscribers    map[chan api.Event]struct{}

	// The recent past, which is only shown. No decision depends on it.
	slots  *timeline.Slots
	recent []api.Event // the last events, newest last
	pasts  pasts       // has its own mutex
}

// New returns a controller. external may be nil.
func New(cfg *config.Config, external ExternalPolicies, log hclog.Logger) (*Controller, error) {
	client, err := cluster.NewClient(cfg.Nomad)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		log: log, client: client, cfg: cfg, external: external,
		watcher:      cluster.NewWatcher(client, cfg.Nomad.Resync, log.Named("cluster")),
		prober:       cluster.NewProber(client, 2*time.Second),
		audit:        audit.New(log, "autoscaler "+cfg.Name),
		protectAfter: time.Minute, forecastEvery: forecastEvery, gpusEvery: gpusEvery,
		wake: make(chan struct{}, 1), unsaved: make(chan struct{}, 1), readingUsage: make(chan struct{}, 1),
		history: history.New(), jobs: map[identity.JobKey]*job{}, policies: map[string]*poolPolicy{}, reported: map[identity.JobKey]string{},
		subscribers: map[chan api.Event]struct{}{}, slots: timeline.NewSlots(keepSlots, mostChanges),
	}
	c.store = store.New(client.Client, cfg.Leader.Namespace, c.audit)
	c.usage = store.NewUsage(client.Client, cfg.Leader.Namespace, c.audit)
	c.metrics = newMetrics(c)
	c.self.Name = cfg.Name
	c.self.Machine, _ = os.Hostname() // if empty, no other autoscaler assumes that it is on the same machine
	c.lock = leader.NewVariable(client.Client, cfg.Leader.Namespace, cfg.Leader.Path, c.identity, cfg.Leader.TTL, cfg.Leader.Delay)
	c.elector = leader.New(auditedLock{c.lock, cfg.Leader.Path, c.audit}, cfg.Leader.TTL, log.Named("leader"))
	c.writer = cluster.NewWriter(c.watcher, cfg.Nomad.WritesPerSecond, c.elector.Check, c.audit)
	c.status = &api.Status{Autoscaler: cfg.Name}
	return c, nil
}

// Run works until the context ends. It returns after all pending decisions of external
// policies have ended; the host of these policies may end them early.
func (c *Controller) Run(ctx context.Context) error {
	defer c.deciding.Wait()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.watcher.Run(ctx) })
	g.Go(func() error { return c.rounds(ctx) })
	g.Go(func() error { return c.probe(ctx) })
	g.Go(func() error { return c.forecasts(ctx) })
	g.Go(func() error { return c.followLeader(ctx) })
	g.Go(func() error { return c.followOverrides(ctx) })
	g.Go(func() error {
		c.elector.Run(ctx, c.lead)
		return ctx.Err()
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// rounds makes one round after another.
func (c *Controller) rounds(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.watcher.Changed():
			pause(ctx, c.Config().Planner.Debounce) // changes that come together are planned together
		case <-c.wake:
		case <-next.C:
		}
		wake, err := c.round(ctx)
		switch {
		case errors.Is(err, cluster.ErrNotReady):
			wake = time.Now().Add(time.Second)
		case err != nil && ctx.Err() == nil:
			c.log.Error("round failed", "error", err)
			wake = time.Now().Add(time.Second)
		}
		next.Reset(max(0, time.Until(wake)))
	}
}

// poke asks for a round.
func (c *Controller) poke() { notify(c.wake) }

// notify puts a value into a channel if it is empty.
func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Client returns the autoscaler's client of Nomad.
func (c *Controller) Client() *cluster.Client { return c.client }

// Config returns the current configuration.
func (c *Controller) Config() *config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}

// Status returns the newest status.
func (c *Controller) Status() *api.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := *c.status
	s.Leading, s.Leader = c.leading(), api.Leader{Name: c.holder.Name, Address: c.holder.Address}
	if err := c.watcher.Trouble(); err != nil {
		s.Problem = err.Error()
	}
	return &s
}

// Health returns an error if the autoscaler cannot do its work.
func (c *Controller) Health() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.decided.IsZero():
		if err := c.watcher.Trouble(); err != nil {
			return fmt.Errorf("the cluster's state has not been read yet: %w", err)
		}
		return errors.New("the cluster's state has not been read yet")
	case time.Since(c.decided) > 3*c.cfg.Planner.Tick:
		return fmt.Errorf("no decision since %s", c.decided.Format(time.RFC3339))
	}
	return nil
}
