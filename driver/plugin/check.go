// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
)

// maxChecks bounds the commands that run next to an isolated task, including those
// that did not end in time.
const maxChecks = 32

// noDeadline is a time that the executor never reaches.
const noDeadline = 10 * 365 * 24 * time.Hour

// runCheck runs a command next to the agent and waits until it ends.
func (t *task) runCheck(command []string, timeout time.Duration) (*drivers.ExecTaskResult, error) {
	if t.confined == nil || t.confined.Identity.Setuid { // not in a container
		return t.execUntil(time.Now().Add(timeout), t.confined.command(command))
	}
	return t.execWithAlarm(command, timeout)
}

// execWithAlarm runs a command in the task's container. If one of the executor's
// own deadlines passes, the executor panics, and the task is lost with it. So an
// alarm ends the command, and the driver does the waiting. A command that survives
// the alarm, because it ignores the signal or leaves a process behind that holds
// its output open, counts against maxChecks until the task ends.
func (t *task) execWithAlarm(command []string, timeout time.Duration) (*drivers.ExecTaskResult, error) {
	select {
	case t.checks <- struct{}{}:
	default:
		return nil, fmt.Errorf("%d commands (health checks, change scripts, nomad alloc exec) already run next to the task; end them or restart the task", maxChecks)
	}
	var result *drivers.ExecTaskResult
	ended := make(chan error, 1)
	// The goroutine ends with the command, and at the latest with the task's
	// executor.
	go func() {
		defer func() { <-t.checks }()
		var err error
		result, err = t.execUntil(time.Now().Add(noDeadline), t.confined.alarmed(command, timeout))
		ended <- err
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return result, err
	case <-timer.C:
		return nil, fmt.Errorf("the command did not end within %s: %w", timeout, context.DeadlineExceeded)
	}
}

func (t *task) execUntil(deadline time.Time, command []string) (*drivers.ExecTaskResult, error) {
	out, code, err := t.exec.Exec(deadline, command[0], command[1:])
	if err != nil {
		return nil, err
	}
	return &drivers.ExecTaskResult{Stdout: out, ExitResult: &drivers.ExitResult{ExitCode: code}}, nil
}

// alarmed returns the arguments that run a command under an alarm.
func (c *confined) alarmed(argv []string, after time.Duration) []string {
	if !c.Alarms {
		return c.command(argv)
	}
	return append([]string{c.Binary}, confine.AlarmArguments(c.Identity, after, argv)...)
}
