// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// localHosts are four hosts with one slot each: different spellings of 127.0.0.1.
var localHosts = []string{"localhost:1", "127.0.0.1:1", "127.0.1:1", "127.1:1"}

// A loss holds the ranks to kill, all at once.
type loss struct {
	hosts []string
	ranks []int
}

// The losses that are measured, each of four ranks.
var (
	lastLost = loss{localHosts, []int{3}}
	leadLost = loss{localHosts, []int{0}}
	hostLost = loss{[]string{"localhost:2", "127.0.0.1:2"}, []int{2, 3}}
)

// Recovery holds recovery times in seconds, by launcher: from the SIGKILL of one
// or more of four ranks to the first step of the next ring.
type Recovery struct {
	Seconds map[string][]float64 `json:"seconds"`
	// Again holds the numbers of repeated steps, one for each time.
	Again map[string][]float64 `json:"again"`
	// Failed holds the number of jobs that failed, by launcher.
	Failed map[string]int `json:"failed"`
}

// measureRecovery kills ranks, in a new job each time, because Horovod's launcher
// does not use a host again after that.
func measureRecovery(ctx context.Context, o *options, launchers []launcher, recovery **Recovery, lost loss) error {
	if *recovery == nil {
		*recovery = &Recovery{Seconds: map[string][]float64{}, Again: map[string][]float64{}, Failed: map[string]int{}}
	}
	r := *recovery
	for round := range o.rounds {
		for _, l := range o.those(launchers) {
			took, steps, err := kill(ctx, o, l, lost)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				r.Failed[l.Name]++
				progress("%s, round %d: %v", l.Name, round+1, err)
				continue
			}
			r.Seconds[l.Name] = append(r.Seconds[l.Name], took)
			r.Again[l.Name] = append(r.Again[l.Name], float64(steps))
			progress("%s, round %d: training again %.2f s after the kill, %d steps done again", l.Name, round+1, took, steps)
		}
	}
	return nil
}

func kill(ctx context.Context, o *options, l launcher, lost loss) (seconds float64, steps int, err error) {
	s, err := start(l, o, lost.hosts, fmt.Sprintf("--step-time=%g", stepTime.Seconds()))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = s.Stop() }()
	if err := s.steady(ctx, 4, 3*time.Second); err != nil {
		return 0, 0, s.fail(err)
	}
	killed := time.Now()
	for _, rank := range lost.ranks {
		pids := s.Record.PIDs(rank)
		if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
			return 0, 0, err
		}
	}
	// The beginning of a ring is an event of its own. The size may be the old one,
	// if the launcher starts the process again.
	first, err := s.Wait(ctx, "new ring", 90*time.Second, func(r train.Record) *train.Event {
		rings := r.Where("ring", func(e train.Event) bool { return e.Rank == 0 && e.Time().After(killed) })
		if len(rings) == 0 {
			return nil
		}
		return firstStep(r, rings[0].Time(), func(train.Event) bool { return true })
	})
	if err != nil {
		return 0, 0, s.fail(err)
	}
	return first.Time().Sub(killed).Seconds(), again(s.Record, first), nil
}
