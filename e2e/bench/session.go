// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A launcher is one of the two that are compared, or none.
type launcher struct {
	Name string
	// command is nil where the script is started by itself.
	command func(*options) []string
}

var (
	upstream = launcher{"horovodrun", func(o *options) []string {
		// With hosts that are all this machine it must be given the interface:
		// it looks for a common one only among two hosts or more.
		return []string{filepath.Join(o.root, ".venv/bin/horovodrun"), "--gloo", "--network-interface", "lo"}
	}}
	kolo = launcher{"Kolo", func(o *options) []string {
		return []string{filepath.Join(o.root, "bin/nomad-driver-horovod"), "run", "--network-interface", "lo"}
	}}
	launchers = []launcher{upstream, kolo}
	none      = launcher{"no launcher", nil}
)

// A session is one training job under a launcher, with what it has recorded.
type session struct {
	*train.Job
	launcher launcher
}

// stepTime is what a step takes at least, as in a small model's training.
const stepTime = 50 * time.Millisecond

// start runs train.py on hosts, which are lines of a host list.
func start(l launcher, o *options, hosts []string, args ...string) (*session, error) {
	launch := train.Launch{Root: o.root, Hosts: hosts, Args: append([]string{"--samples=4800"}, args...)}
	if l.command != nil {
		slots := 0
		for _, h := range hosts {
			n, _ := strconv.Atoi(h[strings.LastIndexByte(h, ':')+1:])
			slots += n
		}
		launch.Launcher = append(l.command(o), "-np", strconv.Itoa(slots), "--min-np", "1", "--max-np", "4")
	}
	job, err := train.Start(launch)
	if err != nil {
		return nil, err
	}
	return &session{job, l}, nil
}

// steady waits until a ring of n has trained for a while. Upstream loses a
// change that comes too soon after another.
func (s *session) steady(ctx context.Context, n int, for_ time.Duration) error {
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

// fail keeps the job's log and names its path.
func (s *session) fail(err error) error {
	kept, keepErr := s.Keep("log")
	return errors.Join(fmt.Errorf("%s: %w (log: %s)", s.launcher.Name, err, kept), keepErr)
}
