// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// Stop holds the signals that end a task under the task driver.
var Stop = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}

// Signals returns a channel that receives all signals that an agent handles, and the
// additional ones in more. From the call on, a stop signal no longer ends the process: it
// is a request to leave.
func Signals(more ...os.Signal) <-chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(passedOn(), more...)...)
	return signals
}

// stops reports whether a signal asks the agent to leave.
func (a *agent) stops(s os.Signal) bool {
	sig, ok := s.(syscall.Signal)
	return ok && slices.Contains(a.stop, sig)
}

// passedOn returns the signals that an agent handles: all that Nomad can send, because most
// of them would otherwise end an agent. It omits signals that Go ignores, and those that
// the kernel or Go's scheduler sends by itself: there are so many of these that a stop
// signal might find the channel full.
func passedOn() []os.Signal {
	var list []os.Signal
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
		default:
			list = append(list, sig)
		}
	}
	return list
}

// signals handles signals: a stop signal makes the agent leave, others are passed on.
func (a *agent) signals(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if a.stops(s) {
				a.log.Info("the task is being stopped; leaving the ring")
				a.host.Leave(a.config.TimeToLeave(time.Now()))
				a.elector.Leave()
			} else if sig, ok := s.(syscall.Signal); ok {
				a.host.Signal(sig)
			}
		}
	}
}
