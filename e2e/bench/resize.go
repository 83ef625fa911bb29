// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// slowImport is the extra start-up time of part "slow".
const slowImport = 10 * time.Second

// route is a sequence of sizes with every change of interest, which ends at its
// first size.
var route = []int{1, 2, 4, 2, 1, 4, 1}

// A walk is a session of changes.
type walk struct {
	route      []int
	importTime time.Duration // extra start-up time of processes
	args       []string      // of the script
	patience   time.Duration // time after which a change counts as lost, 90 s if 0
}

// A Change holds the times of one change, in seconds.
type Change struct {
	Gap      float64 `json:"gap"`
	Lateness float64 `json:"lateness"`
	// Again is the number of repeated steps.
	Again int `json:"again"`
	Course
}

// Changes holds measurements by launcher and change ("1→2").
type Changes struct {
	By map[string]map[string][]Change `json:"by"`
	// Lost holds the number of changes that never happened, by launcher.
	Lost map[string]int `json:"lost"`
	// Repeated holds the number of samples that were trained on twice within an
	// epoch, by launcher, in all its sessions.
	Repeated map[string]int `json:"repeated"`
}

// measureResizes walks the route o.rounds times under each launcher, alternating
// between them so that all see the same machine, and adds the results to changes.
func measureResizes(ctx context.Context, o *options, launchers []launcher, changes **Changes, w walk) error {
	if *changes == nil {
		*changes = &Changes{By: map[string]map[string][]Change{}, Lost: map[string]int{}, Repeated: map[string]int{}}
	}
	c := *changes
	for _, l := range o.those(launchers) {
		if c.By[l.Name] == nil {
			c.By[l.Name] = map[string][]Change{}
		}
	}
	for round := range o.rounds {
		for _, l := range o.those(launchers) {
			if err := c.walk(ctx, o, l, round, w); err != nil {
				return err
			}
		}
		if err := o.keep(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Changes) walk(ctx context.Context, o *options, l launcher, round int, w walk) error {
	route := w.route
	s, err := start(l, o, localSlots(route[0]), append([]string{
		fmt.Sprintf("--step-time=%g", stepTime.Seconds()), fmt.Sprintf("--import-time=%g", w.importTime.Seconds())}, w.args...)...)
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	if err := s.steady(ctx, route[0], 4*time.Second); err != nil {
		return s.fail(err)
	}
	for i := 1; i < len(route); i++ {
		from, to := route[i-1], route[i]
		asked, err := s.SetHosts(localSlots(to)...)
		if err != nil {
			return err
		}
		// A newcomer needs its import time and some seconds; a change that takes
		// longer than this is lost.
		first, err := s.Wait(ctx, fmt.Sprintf("ring of %d", to), w.importTime+cmp.Or(w.patience, 90*time.Second), func(r train.Record) *train.Event {
			return firstStep(r, asked, func(e train.Event) bool { return e.Size == to })
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.Lost[l.Name]++
			progress("%s, round %d: %d→%d: %v", l.Name, round+1, from, to, err)
			return nil // the rest of the walk would start from the wrong size
		}
		if err := s.steady(ctx, to, 4*time.Second); err != nil {
			return s.fail(err)
		}
		measured := Change{Course: courseOf(s.Record, asked, first), Gap: gapBefore(s.Record, first), Lateness: first.Time().Sub(asked).Seconds(), Again: again(s.Record, first)}
		name := change(from, to)
		c.By[l.Name][name] = append(c.By[l.Name][name], measured)
		progress("%s, round %d: %s: gap %.2f s, %.2f s after the request%s", l.Name, round+1, name, measured.Gap, measured.Lateness, measured.Course)
	}
	c.Repeated[l.Name] += repeated(s.Record)
	return nil
}

// localSlots returns a host list of this machine with n slots.
func localSlots(n int) []string { return []string{fmt.Sprintf("localhost:%d", n)} }

// firstStep returns rank 0's first step after t that matches.
func firstStep(r train.Record, t time.Time, match func(train.Event) bool) *train.Event {
	for _, e := range r.Leading() {
		if e.Time().After(t) && match(e) {
			return &e
		}
	}
	return nil
}

// gapBefore returns the time, in seconds, from the last step before e of any rank
// in a ring of another size to e.
func gapBefore(r train.Record, e train.Event) float64 {
	var last float64
	for _, other := range r.Where("step", nil) {
		if other.T < e.T && other.Size != e.Size {
			last = max(last, other.T)
		}
	}
	return e.T - last
}

// change names a change of the ring's size.
func change(from, to int) string { return fmt.Sprintf("%d→%d", from, to) }

// again returns how many steps of the old ring are repeated from e on.
func again(r train.Record, e train.Event) int {
	last := e.Step - 1
	for _, other := range r.Leading() {
		if other.T < e.T {
			last = max(last, other.Step)
		}
	}
	return last + 1 - e.Step
}

// repeated returns how many samples were used more than once in an epoch.
func repeated(r train.Record) int {
	type use struct{ epoch, index int }
	uses, again := map[use]bool{}, 0
	for _, e := range r.Where("step", nil) {
		for _, i := range e.Indices {
			if uses[use{e.Epoch, i}] {
				again++
			}
			uses[use{e.Epoch, i}] = true
		}
	}
	return again
}
