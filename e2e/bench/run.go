// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// RunResults are the outcomes of whole runs, by schedule and launcher.
type RunResults struct {
	Seed  uint64 `json:"seed"`
	Steps int    `json:"steps"`
	// CheckpointSeconds is the measured cost of one checkpoint.
	CheckpointSeconds float64 `json:"checkpoint_seconds"`
	// By contains the runs by the mean time between events, such as "1m0s" ("0s" without
	// events), and by launcher.
	By map[string]map[string]*Run `json:"by"`
}

// stepsWithout returns the number of steps of a run without events, which only shows what a
// step costs.
func stepsWithout(steps int) int { return max(10, steps/5) }

// runLauncher is a row of the table. Its script commits each step, or writes checkpoints.
type runLauncher struct {
	launcher
	checkpoints bool
}

// runLaunchers are the rows, in the order in which they are measured.
var runLaunchers = []runLauncher{
	{launcher{Name: "Kolo, PyTorch in process", framework: train.Torch, command: findsHangs(koloTorch.command)}, false},
	{launcher{Name: "Kolo, script for torchrun", framework: train.Torchrun, command: findsHangs(koloRestart.command)}, true},
	{launcher{Name: "Kolo, Horovod", framework: train.Horovod, command: findsHangs(kolo.command)}, false},
	{launcher{Name: "torchrun, tuned", framework: train.Torch, command: torchrun.command}, true},
	{launcher{Name: "torchrun, defaults", framework: train.Torch, command: peerCommand(torchrunDefaults)}, true},
	{launcher{Name: "torchft", framework: train.Torchft, command: torchft.command, needs: torchft.needs}, false},
	{launcher{Name: "horovodrun", framework: train.Horovod, command: horovodrun.command}, false},
}

// findsHangs lets Kolo derive from the steps of a ring how long a step may take, which is not
// the default.
func findsHangs(command func(*options) []string) func(*options) []string {
	return func(o *options) []string { return append(command(o), "-stall-timeout", "auto") }
}

// checkpointEvery returns the number of steps between checkpoints with which the least time
// is lost. By Young's formula (1974), the time between them is the root of twice the cost
// of a checkpoint times the mean time between failures. Daly (2006) refines the formula for
// large checkpoints.
func checkpointEvery(cost float64, every time.Duration) int {
	if every == 0 {
		every = time.Hour
	}
	return max(1, int(math.Round(math.Sqrt(2*cost*every.Seconds())/fullStep.Seconds())))
}

// measureRuns runs each launcher under each schedule.
func measureRuns(ctx context.Context, o *options, results **RunResults) error {
	if *results == nil {
		*results = &RunResults{By: map[string]map[string]*Run{}}
	}
	r := *results
	if err := r.join(o); err != nil {
		return err
	}
	if r.CheckpointSeconds == 0 {
		var err error
		if r.CheckpointSeconds, err = checkpointCost(ctx, o); err != nil {
			return err
		}
	}
	progress("a checkpoint costs %.1f ms", r.CheckpointSeconds*1000)
	progress("this takes about %s", planned(o, len(o.rows())).Round(time.Minute))
	for _, every := range o.every {
		schedule := newSchedule(o.seed, every, time.Duration(o.steps)*fullStep)
		steps := o.steps
		if every == 0 {
			steps = stepsWithout(steps)
		}
		progress("%d events, one in %s: %s", len(schedule), every, describe(schedule))
		by := r.By[every.String()]
		if by == nil {
			by = map[string]*Run{}
			r.By[every.String()] = by
		}
		before, err := idealShare(ctx, o)
		if err != nil {
			return err
		}
		for _, l := range o.rows() {
			run, err := runOne(ctx, o, l, schedule, steps, checkpointEvery(r.CheckpointSeconds, every))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			after, err := idealShare(ctx, o)
			if err != nil {
				return err
			}
			run.Ideal = (before + after) / 2
			before = after
			by[l.Name] = run
			progress("%s: %.1f %% productive (%.1f %% without launcher; %.1f processes ran or waited for a CPU; the machine stood still for %.1f s), %.1f s for %d steps, %d repeated, %d of %d events survived %s",
				l.Name, run.Productive()*100, run.Ideal*100, run.Running, run.Still, run.Wall, run.Steps, run.Again, run.Survived(), len(run.Events), run.Ended)
			if err := o.keep(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows returns the launchers to measure.
func (o *options) rows() []runLauncher {
	return slices.DeleteFunc(slices.Clone(runLaunchers), func(l runLauncher) bool {
		return !o.has(l.launcher) || o.launchers != "" && !slices.Contains(strings.Split(o.launchers, ";"), l.Name)
	})
}

// join sets what all runs of a table have in common. It returns an error if this differs
// from the earlier runs to which -add adds.
func (r *RunResults) join(o *options) error {
	if len(r.By) > 0 && (r.Seed != o.seed || r.Steps != o.steps) {
		return fmt.Errorf("-add: the earlier runs have -seed=%d -steps=%d", r.Seed, r.Steps)
	}
	r.Seed, r.Steps = o.seed, o.steps
	return nil
}

// checkpointCost returns how much longer a step with a checkpoint takes, in seconds.
func checkpointCost(ctx context.Context, o *options) (float64, error) {
	const steps = 200
	with, err := stepOf(ctx, o, torchrun, 1, steps, "--audit=1", "--checkpoint-every=1")
	if err != nil {
		return 0, err
	}
	without, err := stepOf(ctx, o, torchrun, 1, steps, "--audit=1", "--checkpoint-every=0")
	return max(0.0001, (with-without)/1000), err
}

func describe(schedule []disturbance) string {
	var parts []string
	for _, d := range schedule {
		parts = append(parts, fmt.Sprintf("%s %s", d.at.Round(time.Second), d.cause))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing happens")
}

// A runner disturbs one run.
type runner struct {
	*session
	launched time.Time
	first    time.Time // of steps
	hosts    []string
	slots    []capacity
	due      []deed // in the order of their times
	run      *Run
	slow     int // process that is stopped and continued in turns, 0 if none
	paused   bool
}

// watchInterval is the time between two looks at a run.
const watchInterval = 50 * time.Millisecond

// stoodStill returns how long the machine stood still, for example because a hypervisor copied its
// memory, if a wait of watchInterval took as long as waited. Delays below half a second count as load.
func stoodStill(waited time.Duration) time.Duration {
	if late := waited - watchInterval; late >= time.Second/2 {
		return late
	}
	return 0
}

// giveUp is the time without a new step after which a run counts as failed.
const giveUp = 2 * time.Minute

// runOne measures one run. every is the number of steps between checkpoints.
func runOne(ctx context.Context, o *options, l runLauncher, schedule []disturbance, steps, every int) (*Run, error) {
	args := []string{
		"--audit=1", "--step-time=0", fmt.Sprintf("--global-batch=%d", stepSamples),
		fmt.Sprintf("--sample-time=%g", stepWork/stepSamples), "--import-time-file=import-time",
	}
	if l.checkpoints {
		args = append(args, "--commit-every=0", "--checkpoint=checkpoint", fmt.Sprintf("--checkpoint-every=%d", every))
	}
	launched := time.Now()
	s, err := start(l.launcher, o, localHosts, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Stop() }()
	r := &runner{session: s, launched: launched, hosts: slices.Clone(localHosts), run: &Run{Wanted: steps}}
	for _, d := range schedule {
		r.plan(d)
	}
	end, err := r.watch(ctx, steps)
	if err != nil {
		return nil, s.fail(err)
	}
	at := arrivals(r.Record, steps)
	r.run.account(at, r.slots, end)
	r.run.Again, r.run.Samples = repeatedSteps(r.Record), uses(r.Record)
	if r.run.Ended != "" {
		kept, _ := s.Keep("log")
		progress("%s: log: %s", l.Name, kept)
	}
	return r.run, nil
}

// watch follows the run until it has done all steps or has failed. It returns the time of
// the failure in seconds after the first step, or 0.
func (r *runner) watch(ctx context.Context, wanted int) (float64, error) {
	reached, read, moved := 0, 0, time.Now()
	var load meter
	defer func() { r.run.Running = load.mean() }()
	for {
		if err := r.Update(); err != nil {
			return 0, err
		}
		// Only new events are looked at, because a run has many, and this loop must not slow it down.
		if e := newest(r.Record[read:]); e.Step > reached {
			if reached == 0 {
				r.first = r.firstStep()
				r.run.Start = r.first.Sub(r.launched).Seconds()
				r.slots = []capacity{{0, slotsOf(r.hosts)}}
			}
			reached, moved = e.Step, time.Now()
			r.run.survived(e.Time().Sub(r.first).Seconds())
		}
		read = len(r.Record)
		if err := load.sample(); err != nil {
			return 0, err
		}
		if reached >= wanted {
			return 0, nil
		}
		waits := time.Now()
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-r.Ended():
			r.run.Ended = r.failed("the launcher ended: " + r.Exit().String())
		case <-time.After(watchInterval):
			r.run.Still += stoodStill(time.Since(waits)).Seconds()
			if time.Since(moved) > giveUp {
				r.run.Ended = r.failed(fmt.Sprintf("no step for %s", giveUp))
			}
		}
		if r.run.Ended != "" {
			if reached == 0 {
				return 0, errors.New(r.run.Ended)
			}
			return time.Since(r.first).Seconds(), nil
		}
		if err := r.disturb(); err != nil {
			return 0, err
		}
	}
}

func (r *runner) firstStep() time.Time {
	first := r.Record.Where("step", nil)
	return slices.MinFunc(first, func(a, b train.Event) int { return cmp.Compare(a.T, b.T) }).Time()
}

// newest returns the first event of the highest step, or the zero Event if there is no step.
func newest(events train.Record) train.Event {
	var found train.Event
	for _, e := range events {
		if e.Kind == "step" && e.Step > found.Step {
			found = e
		}
	}
	return found
}

func (r *runner) failed(why string) string {
	if n := len(r.run.Events); n > 0 {
		return fmt.Sprintf("%s, after: %s", why, r.run.Events[n-1].Cause)
	}
	return why
}

// survived marks the events before a step as survived, except hangs that the operator has ended.
// step is the time of the step after the first one, in seconds.
func (r *Run) survived(step float64) {
	for i := range r.Events {
		e := &r.Events[i]
		if e.Cause == hang && step-e.At >= patience.Seconds() && !e.Survived {
			continue
		}
		// A step may have been in progress when the event happened, so two steps have to
		// follow.
		if step-e.At > 3*fullStep.Seconds() {
			e.Survived = true
		}
	}
}
