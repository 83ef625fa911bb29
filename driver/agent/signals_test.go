// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"syscall"
	"testing"

	"github.com/hashicorp/consul-template/signals"
	"github.com/shoenig/test/must"
)

func TestSignalsDoNotEndTheAgent(t *testing.T) {
	for name, sig := range signals.SignalLookup {
		switch sig {
		case signals.SIGNULL, syscall.SIGKILL, syscall.SIGSTOP:
		case syscall.SIGPIPE: // to a Go program, one is nothing
		default:
			must.SliceContains(t, passedOn(), sig, must.Sprint(name))
		}
	}
	must.SliceNotContains(t, passedOn(), os.Signal(syscall.SIGURG), must.Sprint("Go's scheduler sends it all the time"))
}
