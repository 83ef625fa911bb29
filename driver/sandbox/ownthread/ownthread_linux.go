// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package ownthread runs functions that change properties of a thread, such as its rights
// to files or its network namespace.
package ownthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread that no other goroutine uses again, and returns its error. It
// avoids the process's first thread, which ends only with the process. That thread would
// keep the changes that f makes, and /proc would show them as changes of the process.
func Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		err := Do(f) // on another thread, because the first one is taken
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}
