// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A session is one training job under a launcher, with its record.
type session struct {
	*train.Job
	launcher launcher
}

// stepTime is the minimum time of a step, as in a small model's training.
const stepTime = 50 * time.Millisecond

// start runs the launcher's script on hosts, which are lines of a host list.
func start(l launcher, o *options, hosts []string, args ...string) (*session, error) {
	launch := train.Launch{
		Root: o.root, Framework: l.framework, Hosts: hosts,
		Args: slices.Concat([]string{"--samples=4800"}, l.args, args),
	}
	if l.command != nil {
		launch.Launcher = append(l.command(o), "-np", strconv.Itoa(slotsOf(hosts)), "--min-np", "1", "--max-np", "4")
	}
	job, err := train.Start(launch)
	if err != nil {
		return nil, err
	}
	return &session{job, l}, nil
}

// steady waits until a ring of n has trained for a while. Horovod's launcher loses
// a change that comes too soon after another.
func (s *session) steady(ctx context.Context, n int, for_ time.Duration) error {
	for_ += rand.N(time.Second) // the next change may come at any time between two checkpoints
	_, err := s.Wait(ctx, fmt.Sprintf("steady ring of %d", n), 2*time.Minute, func(r train.Record) *train.Event {
		steps := r.Leading()
		if len(steps) == 0 || steps[len(steps)-1].Size != n {
			return nil
		}
		last := steps[len(steps)-1]
		for i := len(steps) - 1; i >= 0 && steps[i].Size == n; i-- {
			if last.Time().Sub(steps[i].Time()) >= for_ {
				return &last
			}
		}
		return nil
	})
	return err
}

// fail keeps the job's log and adds its path to the error.
func (s *session) fail(err error) error {
	kept, keepErr := s.Keep("log")
	return errors.Join(fmt.Errorf("%s: %w (log: %s)", s.launcher.Name, err, kept), keepErr)
}
