// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"os/signal"
	"syscall"
)

// outliveReaders lets this process go on when nobody reads its output any more:
// training must not end with a log collector or a pager. What is written then is
// lost, and what is written when there is a reader again is not.
//
// Notify, not Ignore: that would be inherited by the slots.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
