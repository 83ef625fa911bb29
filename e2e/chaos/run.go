// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

const (
	// commitEvery is in steps, samples in samples per epoch. Epochs are short so that the
	// script can end soon on demand.
	commitEvery = 3
	samples     = 1200
	stepTime    = 30 * time.Millisecond
)

// A trial is one job with its seed.
type trial struct {
	*train.Job
	plan    *plan
	begun   time.Time
	listed  []host
	changes int // resizes and kills so far
	killed  int // processes
	growth  growth
}

// run disturbs one job. The error states what was lost.
func run(ctx context.Context, o *options, f train.Framework, seed uint64) error {
	p := newPlan(seed, o.maxRanks, o.changes > 0)
	job, err := train.Start(train.Launch{
		Root:      o.root,
		Framework: f,
		Launcher: f.Run(o.root, "-verbose", "-np", "1",
			"-on-ring-lost", "restart", "-slot-restarts", "1000000", "-discovery-interval", "50ms"),
		Hosts: lines(p.hosts),
		Args: []string{"--checkpoint=checkpoint", "--import-time-file=import-time",
			"--samples=" + strconv.Itoa(samples), "--ballast=" + strconv.Itoa(o.stateMB), fmt.Sprintf("--step-time=%g", stepTime.Seconds()),
			"--commit-every=" + strconv.Itoa(commitEvery), "--checkpoint-every=" + strconv.Itoa(commitEvery), "--audit=1"},
	})
	if err != nil {
		return err
	}
	t := &trial{Job: job, plan: p, begun: time.Now(), listed: p.hosts}
	t.tell("%s, seed %d: hosts %s", f.Name, seed, lines(p.hosts))
	err = errors.Join(t.trouble(ctx, o), t.Record.CheckRollbacks(commitEvery), t.Record.CheckEffective(samples), t.Record.CheckUses(), t.growth.check(), t.checkTrouble())
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), t.Stop())
	}
	if err != nil {
		log, logErr := t.Keep("log")
		records, recordsErr := t.Keep("records")
		return errors.Join(fmt.Errorf("%w\nlog: %s, records: %s", err, log, records), logErr, recordsErr, t.Stop())
	}
	fmt.Printf("%s, seed %d: ok: %d changes, %d processes killed, %d rings, %d steps, none lost beyond the last commit, %d epochs with each sample used\n%s",
		f.Name, seed, t.changes, t.killed, len(rings(t.Record)), t.Record.Last().Step, t.Record.Last().Epoch+1, t.growth.report())
	return t.Stop()
}

// checkTrouble returns an error if the run was too short for its seed's actions, and so
// tried nothing.
func (t *trial) checkTrouble() error {
	if t.changes > 0 && t.killed > 0 {
		return nil
	}
	return fmt.Errorf("%d changes and %d processes killed try nothing: let the run last longer (-for, -changes)", t.changes, t.killed)
}

// trouble disturbs the job for the configured time, then ends training. It returns an error
// if training did not continue or did not end well.
func (t *trial) trouble(ctx context.Context, o *options) error {
	for n := 1; o.changes > 0 && t.changes < o.changes || o.changes == 0 && time.Since(t.begun) < o.length; n++ {
		a := t.plan.next()
		if err := t.sleep(ctx, a.pause); err != nil {
			return err
		}
		t.tell("%s", a)
		if err := t.do(a); err != nil {
			return err
		}
		if n%t.plan.burst == 0 {
			if err := t.settle(ctx, o); err != nil {
				return err
			}
		}
	}
	if err := t.settle(ctx, o); err != nil {
		return err
	}
	if err := t.Finish(); err != nil {
		return err
	}
	select {
	case <-t.Ended():
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(o.calm):
		return errors.New("training was told to end, and did not")
	}
	if code := t.Exit().ExitCode(); code != 0 {
		return fmt.Errorf("the job ended with status %d", code)
	}
	return t.Update()
}

// settle waits until a ring of all slots has made ten steps, and all other processes are
// gone.
func (t *trial) settle(ctx context.Context, o *options) error {
	want := slots(t.plan.hosts)
	begun, known := time.Now(), len(t.Record)
	e, err := t.Wait(ctx, fmt.Sprintf("ring of %s that trains", lines(t.plan.hosts)), o.calm, func(r train.Record) *train.Event {
		r = r[known:]
		if r.CheckSize(want, begun) != nil || len(t.Processes()) != want {
			return nil
		}
		last := r.Last()
		return &last
	})
	if err != nil {
		return err
	}
	t.tell("  %d ranks train, step %d, after %d changes", e.Size, e.Step, t.changes)
	return keep(o.samples, t.growth.look(t, want))
}

// keep appends samples to a file, if there is one.
func keep(path string, seen []usage) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, u := range seen {
		err = errors.Join(err, json.NewEncoder(f).Encode(u))
	}
	return errors.Join(err, f.Close())
}

// do executes an action. It ignores a process that has just ended.
func (t *trial) do(a action) error {
	switch a.kind {
	case rehost:
		if !slices.Equal(a.hosts, t.listed) {
			t.changes++
		}
		t.listed = a.hosts
		_, err := t.SetHosts(lines(a.hosts)...)
		return err
	case slow:
		return os.WriteFile(t.File("import-time"), fmt.Append(nil, a.length.Seconds()), 0o644)
	case kill:
		before := t.killed
		for _, pid := range pick(t.exposed(a), a.victims) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				t.killed++
			}
		}
		if t.killed > before {
			t.changes++
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

// firstSlot matches the environment of the first slot of the first host. The slot's
// directory has a number from the second time on that the host is listed.
var firstSlot = regexp.MustCompile("\x00KOLO_PROGRESS_FILE=[^\x00]*/" + names[0] + `(\.\d+)?/progress-0\.jsonl` + "\x00")

// exposed returns the processes that an action may kill.
func (t *trial) exposed(a action) []int {
	return slices.DeleteFunc(t.Processes(), func(pid int) bool {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return a.spare && firstSlot.Match(environ)
	})
}

// pick returns the chosen ones of all, each once.
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

// lines returns the lines of a host list.
func lines(hosts []host) []string {
	var text []string
	for _, h := range hosts {
		text = append(text, h.String())
	}
	return text
}

// rings returns the starts of rings, as rank 0 recorded them.
func rings(r train.Record) train.Record {
	return r.Where("ring", func(e train.Event) bool { return e.Rank == 0 })
}
