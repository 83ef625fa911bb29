// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

const (
	// commitEvery and samples are in steps, and in samples of an epoch: short
	// epochs let the script end soon on demand.
	commitEvery = 3
	samples     = 1200
	stepTime    = 30 * time.Millisecond
	// burst is the number of actions after which training is left alone.
	burst = 8
	// calm is how long it may take then to a ring of all slots: the longest
	// pause before a slot's restart is a minute.
	calm = 2 * time.Minute
)

// A trial is one job with its seed.
type trial struct {
	*train.Job
	plan   *plan
	begun  time.Time
	killed int
	growth growth
}

// run makes trouble for one job. The error names what was lost.
func run(ctx context.Context, o *options, seed uint64) error {
	p := newPlan(seed, o.maxRanks)
	job, err := train.Start(train.Launch{
		Root:      o.root,
		Framework: o.framework,
		Launcher: o.framework.Run(o.root, "-verbose", "-np", "1",
			"-on-ring-lost", "restart", "-slot-restarts", "1000000", "-discovery-interval", "50ms"),
		Hosts: lines(p.hosts),
		Args: []string{"--checkpoint=checkpoint", "--import-time-file=import-time",
			"--samples=" + strconv.Itoa(samples), fmt.Sprintf("--step-time=%g", stepTime.Seconds()),
			"--commit-every=" + strconv.Itoa(commitEvery), "--checkpoint-every=" + strconv.Itoa(commitEvery)},
	})
	if err != nil {
		return err
	}
	t := &trial{Job: job, plan: p, begun: time.Now()}
	t.tell("seed %d: hosts %s", seed, lines(p.hosts))
	err = errors.Join(t.trouble(ctx, o.length), t.Record.CheckRollbacks(commitEvery), t.Record.CheckEffective(samples), t.growth.check())
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), t.Stop())
	}
	if err != nil {
		kept, keepErr := t.Keep("log")
		return errors.Join(fmt.Errorf("%w\nlog: %s", err, kept), keepErr, t.Stop())
	}
	fmt.Printf("seed %d: ok: %d processes killed, %d rings, %d steps, none lost beyond the last commit; launcher: %s\n",
		seed, t.killed, len(rings(t.Record)), t.Record.Last().Step, t.growth)
	return t.Stop()
}

// trouble goes on for a while, ends training, and returns an error if training
// did not go on or did not end well.
func (t *trial) trouble(ctx context.Context, length time.Duration) error {
	for n := 1; time.Since(t.begun) < length; n++ {
		a := t.plan.next()
		if err := t.sleep(ctx, a.pause); err != nil {
			return err
		}
		t.tell("%s", a)
		if err := t.do(a); err != nil {
			return err
		}
		if n%burst == 0 {
			if err := t.settle(ctx); err != nil {
				return err
			}
		}
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.Finish(); err != nil {
		return err
	}
	select {
	case <-t.Ended():
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(calm):
		return errors.New("training was told to end, and did not")
	}
	if code := t.Exit().ExitCode(); code != 0 {
		return fmt.Errorf("the job ended with status %d", code)
	}
	return t.Update()
}

// settle waits for a ring of all slots to do ten steps, and for all other
// processes to be gone.
func (t *trial) settle(ctx context.Context) error {
	want := slots(t.plan.hosts)
	begun := time.Now()
	e, err := t.Wait(ctx, fmt.Sprintf("ring of %s that trains", lines(t.plan.hosts)), calm, func(r train.Record) *train.Event {
		if r.CheckSize(want, begun) != nil || len(t.Processes()) != want {
			return nil
		}
		last := r.Last()
		return &last
	})
	if err != nil {
		return err
	}
	t.growth.look(t.PID(), want)
	t.tell("  %d ranks train, step %d", e.Size, e.Step)
	return nil
}

// do makes an action happen. A process that has just ended can't be harmed, and
// need not be.
func (t *trial) do(a action) error {
	switch a.kind {
	case rehost:
		_, err := t.SetHosts(lines(a.hosts)...)
		return err
	case slow:
		return os.WriteFile(t.File("import-time"), fmt.Append(nil, a.length.Seconds()), 0o644)
	case kill:
		for _, pid := range pick(t.Processes(), a.victims) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				t.killed++
			}
		}
	case freeze:
		for _, pid := range pick(t.Processes(), a.victims) {
			if syscall.Kill(pid, syscall.SIGSTOP) == nil {
				time.AfterFunc(a.length, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			}
		}
	}
	return nil
}

// pick returns the chosen of all, each once.
func pick(all []int, chosen []float64) []int {
	var picked []int
	for _, c := range chosen {
		if len(all) == 0 {
			break
		}
		i := int(c * float64(len(all)))
		picked = append(picked, all[i])
		all = slices.Delete(slices.Clone(all), i, i+1)
	}
	return picked
}

func (t *trial) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.Ended():
		return fmt.Errorf("the job ended (%s)", t.Exit())
	}
}

func (t *trial) tell(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}

// lines of a host list.
func lines(hosts []host) []string {
	var text []string
	for _, h := range hosts {
		text = append(text, h.String())
	}
	return text
}

// rings are the beginnings of rings, as rank 0 recorded them.
func rings(r train.Record) train.Record {
	return r.Where("ring", func(e train.Event) bool { return e.Rank == 0 })
}
