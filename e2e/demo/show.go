// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const (
	// patience is how long nothing at all may happen. On a busy machine a step that usually
	// takes less than a second may take minutes.
	patience = 10 * time.Minute
	// enough is how long every state is shown.
	enough = 8 * time.Second
)

// A show is the script of the demo: jobs arrive, share, and end.
type show struct {
	c         *cluster.Cluster
	kolo      *daemon
	screen    *screen
	root      string
	framework train.Framework
	gpu       bool

	jobs []*job // arrived so far
	seen *koloapi.Status
	// looked is when the table and Nomad's allocations were last updated, which costs more
	// than the rest.
	looked   time.Time
	happened progress
	idle     cluster.Idle[progress]
}

// A progress stands for everything that has happened so far.
type progress struct {
	recorded int    // events of training processes
	events   int    // of kolo
	modified uint64 // highest index of an allocation
}

func (s *show) run(ctx context.Context, then string) error {
	for _, j := range jobs() {
		s.screen.say("▶ nomad job run %s: %d steps, queue %s", j.name, j.steps, j.queue)
		if err := j.submit(ctx, s.c, s.root, s.framework, s.gpu); err != nil {
			return err
		}
		s.jobs = append(s.jobs, j)
		if err := s.until(ctx, j.name+" to train, and all rings to be as the policy wants", s.settled()); err != nil {
			return err
		}
	}
	last := s.jobs[len(s.jobs)-1].name
	if err := s.until(ctx, last+" to end, and the others to grow", s.after(last, s.settled())); err != nil {
		return err
	}

	s.screen.say("▶ kolo policy set '%s'", then)
	if _, err := s.kolo.command(ctx, "policy", "set", then); err != nil {
		return err
	}
	if err := s.until(ctx, "the policy "+then+" to be followed", s.follows(then, s.settled())); err != nil {
		return err
	}
	for _, j := range s.jobs {
		if err := s.until(ctx, j.name+" to end", s.after(j.name, func() bool { return true })); err != nil {
			return err
		}
	}
	s.screen.clear()
	return s.ended(ctx)
}

// settled returns a condition. It is true once every job that is not complete has trained,
// for long enough, in a ring of the size that the policy wants.
func (s *show) settled() func() bool {
	var since time.Time
	return func() bool {
		if !s.steady() {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= enough
	}
}

func (s *show) steady() bool {
	for _, j := range s.jobs {
		st := s.state(j.name)
		switch {
		case st == nil:
			return false
		case st.State == koloapi.StateComplete:
		case st.Want != st.Count || st.Running != st.Count || j.record.Last().Size != st.Count:
			return false
		}
	}
	return true
}

// after returns the condition done, but false until a job is complete.
func (s *show) after(name string, done func() bool) func() bool {
	return func() bool {
		st := s.state(name)
		return st != nil && st.State == koloapi.StateComplete && done()
	}
}

// follows returns the condition done, but false until a policy makes decisions.
func (s *show) follows(policy string, done func() bool) func() bool {
	return func() bool { return s.seen.Pools[0].Policy == policy && done() }
}

// state returns what kolo last reported of a job, nil if nothing.
func (s *show) state(name string) *koloapi.JobStatus {
	for i := range s.seen.Jobs {
		if s.seen.Jobs[i].ID == name {
			return &s.seen.Jobs[i]
		}
	}
	return nil
}

// until prints events until done is true, however long that takes. It fails if nothing more
// happens.
func (s *show) until(ctx context.Context, what string, done func() bool) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := s.look(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		if done() {
			return nil
		}
		if err := s.stuck(time.Now()); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-s.kolo.events:
			s.happened.events++
			s.print(e)
		case <-ticker.C:
		}
	}
}

// stuck returns an error if nothing has happened for too long.
func (s *show) stuck(now time.Time) error {
	if idle := s.idle.For(s.happened, now); idle > patience {
		return fmt.Errorf("no step, no event and no change of an allocation for %s", idle.Round(time.Second))
	}
	return nil
}

// look brings everything up to date, and prints new events.
func (s *show) look(ctx context.Context) error {
	if err := s.kolo.alive(); err != nil {
		return err
	}
	var err error
	if s.seen, err = s.kolo.status(ctx); err != nil {
		return err
	}
	s.happened.recorded = 0
	for _, j := range s.jobs {
		news, err := j.follow()
		if err != nil {
			return err
		}
		s.happened.recorded += len(j.record)
		for _, z := range news {
			s.screen.say("  %-6s  %s %d → %d ranks: no rank trained for %s, step %d follows step %d",
				j.name, bar(z.To), z.From, z.To, seconds(z.idle), z.After.Step, z.Before.Step)
		}
	}
	if time.Since(s.looked) < time.Second {
		return nil
	}
	s.looked = time.Now()
	if err := s.failed(ctx); err != nil {
		return err
	}
	if _, ok := s.screen.width(); !ok {
		return nil
	}
	table, err := s.kolo.command(ctx, "status")
	if err != nil {
		return err
	}
	s.screen.show(table)
	return nil
}

// print prints one event of the agent.
func (s *show) print(e koloapi.Event) {
	name := strings.TrimPrefix(e.Job, "default/")
	switch e.Type {
	case "resize":
		s.screen.say("◆ %-6s  kolo: %d → %d workers (%s)", name, e.From, e.To, e.Reason)
	case "complete":
		s.screen.say("◆ %-6s  complete", name)
	case "policy":
		s.screen.say("◆ kolo: %s", e.Reason)
	case "problem", "trouble":
		s.screen.say("◆ %-6s  %s: %s", name, e.Type, e.Reason)
	}
}

// failed returns an error if an allocation has failed.
func (s *show) failed(ctx context.Context) error {
	allocs, _, err := s.c.API.Allocations().List(new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	for _, a := range allocs {
		s.happened.modified = max(s.happened.modified, a.ModifyIndex)
		if a.ClientStatus == api.AllocClientStatusFailed {
			return fmt.Errorf("%s failed: %s", a.Name, strings.Join(cluster.Events(a), "; "))
		}
	}
	return nil
}

// ended waits until all jobs have ended in Nomad, too, and reads the rest of their records.
func (s *show) ended(ctx context.Context) error {
	for _, j := range s.jobs {
		if err := s.dead(ctx, j.name); err != nil {
			return err
		}
		if _, err := j.follow(); err != nil {
			return err
		}
	}
	return s.failed(ctx)
}

// dead waits until a job that ended in kolo's view has ended in Nomad, too.
func (s *show) dead(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	return s.c.WaitStatus(ctx, name, "dead")
}

func bar(n int) string {
	return strings.Repeat("■", n) + strings.Repeat("·", max(0, slots-n))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
