// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const (
	// samples make an epoch of 5 seconds for one worker.
	samples  = 1200
	stepTime = 50 * time.Millisecond
	// patience bounds every wait for the cluster. A change takes some seconds.
	patience = 2 * time.Minute
)

// A show runs the training job and tells what it sees.
type show struct {
	c        *cluster.Cluster
	screen   *screen
	dir      string
	follower *train.Follower
	record   train.Record
	// requests are the changes asked for, to tell how long each took.
	requests []request
}

type request struct {
	count int
	at    time.Time
}

// submit registers the job of jobspecs/pytorch-cpu.nomad.hcl with the script
// that keeps records.
func (s *show) submit(ctx context.Context, root, python string, count int) error {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	s.follower = train.Follow(filepath.Join(s.dir, "records"))
	text, err := os.ReadFile(filepath.Join(root, "jobspecs/pytorch-cpu.nomad.hcl"))
	if err != nil {
		return err
	}
	job, err := s.c.Parse(string(text), cluster.Vars{
		"count":     count,
		"python":    python,
		"script":    filepath.Join(root, "e2e/train/train.py"),
		"isolation": "none",
		"args": []string{
			"--epochs=100000",
			fmt.Sprintf("--samples=%d", samples),
			fmt.Sprintf("--step-time=%g", stepTime.Seconds()),
			"--records=" + filepath.Join(s.dir, "records"),
			"--stop-file=" + filepath.Join(s.dir, "stop"),
		},
	})
	if err != nil {
		return err
	}
	name := "demo"
	job.ID, job.Name = &name, &name
	s.screen.say("nomad job run pytorch-cpu.nomad.hcl, with %d worker", count)
	s.requests = append(s.requests, request{count, time.Now()})
	return s.c.RegisterJob(ctx, job)
}

func (s *show) scale(ctx context.Context, count int) error {
	s.screen.say("nomad job scale demo workers %d", count)
	s.requests = append(s.requests, request{count, time.Now()})
	return s.c.Scale(ctx, "demo", "workers", count)
}

// watch shows training until a ring of n has trained for the given time.
func (s *show) watch(ctx context.Context, n int, enough time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+enough, fmt.Errorf("no ring of %d within %s", n, patience))
	defer cancel()
	var since time.Time
	return s.until(ctx, func() (bool, error) {
		if s.record.Last().Size != n {
			since = time.Time{}
			return false, s.failed(ctx)
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= enough, nil
	})
}

// finish lets the script end with its epoch, and waits for the job.
func (s *show) finish(ctx context.Context) error {
	s.screen.say("training may end with this epoch")
	if err := os.WriteFile(filepath.Join(s.dir, "stop"), nil, 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the job does not end"))
	defer cancel()
	return s.until(ctx, func() (bool, error) {
		info, _, err := s.c.API.Jobs().Info("demo", nil)
		return err == nil && *info.Status == "dead", err
	})
}

// until shows training until done says so.
func (s *show) until(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		more, err := s.follower.Next()
		if err != nil {
			return err
		}
		s.tell(more)
		if end, err := done(); end || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// tell adds events to the record, and shows them.
func (s *show) tell(more train.Record) {
	before := len(s.record.Resizes())
	s.record = append(s.record, more...)
	if len(more.Leading()) == 0 {
		return
	}
	for _, z := range s.record.Resizes()[before:] {
		s.screen.resize(z)
	}
	s.screen.training(s.record)
}

// failed is an error once an allocation has failed.
func (s *show) failed(ctx context.Context) error {
	allocs, err := s.c.Allocs(ctx, "demo")
	if err != nil {
		return err
	}
	for _, a := range allocs {
		if a.ClientStatus == "failed" {
			return fmt.Errorf("%s failed: %s", a.Name, strings.Join(cluster.Events(a), "; "))
		}
	}
	return nil
}

// summary says what the records prove.
func (s *show) summary() error {
	more, err := s.follower.Next()
	if err != nil {
		return err
	}
	s.record = append(s.record, more...)
	steps := s.record.Leading()
	fmt.Println()
	fmt.Printf("  %-10s %-22s %s\n", "ring", "no rank trained for", "training so after the request")
	for _, z := range s.record.Resizes() {
		fmt.Printf("  %-10s %-22s %s\n", fmt.Sprintf("%d → %d", z.From, z.To), seconds(z.Gap()), s.lateness(z))
	}
	fmt.Println()
	report := func(what string, err error) {
		if err != nil {
			what = "NO: " + err.Error()
		}
		fmt.Printf("  %s\n", what)
	}
	report(fmt.Sprintf("%d steps, none lost, none repeated", len(steps)), s.record.CheckConsecutive())
	report(fmt.Sprintf("%d epochs of %d samples, each used exactly once", steps[len(steps)-1].Epoch+1, samples), s.record.CheckSamples(samples))
	report(fmt.Sprintf("loss %.4f at first, %.4f in the end", steps[0].Loss, steps[len(steps)-1].Loss), s.record.CheckLoss())
	report("one process was rank 0 throughout: nothing was restarted", s.oneLeader())
	return errors.Join(s.record.CheckConsecutive(), s.record.CheckSamples(samples), s.record.CheckLoss(), s.oneLeader())
}

func (s *show) oneLeader() error {
	if pids := s.record.PIDs(0); len(pids) != 1 {
		return fmt.Errorf("%d processes were rank 0: %v", len(pids), pids)
	}
	return nil
}

// lateness is the time from the request that led to a resize.
func (s *show) lateness(z train.Resize) string {
	for i := len(s.requests) - 1; i >= 0; i-- {
		if r := s.requests[i]; r.count == z.To && r.at.Before(z.After.Time()) {
			return seconds(z.After.Time().Sub(r.at))
		}
	}
	return "–"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
