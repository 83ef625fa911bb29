// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"os"
	"syscall"
	"time"
)

// passedOn are the signals that an agent takes: all that Nomad can send, as most
// would end an agent that does not. Left out are those that Go ignores and that
// the kernel or Go's scheduler send by themselves: they come in such numbers
// that a stop signal might find the channel full.
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

// signals turns a stop signal into leaving and passes others on.
func (a *agent) signals(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				a.log.Info("the task is being stopped; leaving the ring")
				a.host.Leave(a.config.TimeToLeave(time.Now()))
				a.elector.Leave()
			} else if ok {
				a.host.Signal(sig)
			}
		}
	}
}
