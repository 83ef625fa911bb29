// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"errors"
	"strings"
	"sync"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// mode is how the processes of one host handle a change of the ring. Either they change it
// in process, by the worker protocol, or they use the store alone and are replaced for each
// ring. The mode is configured, or decided by the first process's behaviour.
type mode struct {
	mu sync.Mutex
	is string // settings.ModeInProcess or settings.ModeRestart; empty: not decided
}

// takes reports whether a process may take part in the given mode. If the mode is
// undecided, this decides it for all processes.
func (m *mode) takes(way string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.is == "" {
		m.is = way
	}
	return m.is == way
}

// Reasons to refuse the hello of a process.
var (
	errStoreFirst = errors.New("the process has used the store of its process group before it connected to the agent, as scripts without kolo.torch do: " +
		`kolo.torch forms the group, so the script must not call init_process_group or the like before; mode = "restart" trains it as it is`)
	errOthersRestart = errors.New("other processes of this task form their process group without kolo.torch: all must train in one way")
)

// question returns a message that asks why a process has not connected to its agent.
func question(mode string) string {
	const group = "torch.distributed.init_process_group"
	switch mode {
	case settings.ModeInProcess:
		return "does the script call " + entry + "? Without, it has no place in the process group; kolo.torch is in the Python package kolo"
	case settings.ModeRestart:
		return "does the script call " + group + "? Without, it has no place in a process group"
	default:
		return "does the script call " + group + ", or " + entry + "? Without, it has no place in a process group"
	}
}

// missing holds the error texts of PyTorch and Python about a missing part, and what to do
// about each. PyTorch up to 2.6 misspells the word after the first text.
var missing = []struct{ text, advice string }{
	{"use_libuv was requested but PyTorch was ",
		"this PyTorch was built without libuv, but asks for it even if an agent serves the store; start the script with python3 -m kolo.launch"},
	{"No module named 'kolo'", noKolo},
	{"No module named 'kolo.", noKolo}, // another project named kolo, on PyPI
	{"No module named kolo.", noKolo},
	{"rendezvous backend 'kolo' is not registered", noKolo},
}

const noKolo = "this Python lacks Kolo's package (kolo on PyPI is another project's); install it from a clone of Kolo's repository: python3 -m pip install ./python"

// Explain returns advice on the last line that a process wrote to stderr.
func (f *Framework) Explain(line string) string {
	for _, m := range missing {
		if strings.Contains(line, m.text) {
			return m.advice
		}
	}
	return ""
}
