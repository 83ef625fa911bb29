// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package torch

import (
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// entry describes the function that a script trains in.
const entry = "a function decorated with kolo.torch.elastic"

// Agent returns the agent's interface to PyTorch.
func Agent() framework.Framework {
	return framework.Framework{
		Elastic:  elastic.Framework{Name: "PyTorch", Rendezvous: entry + ", or init_process_group", Entry: entry, AbandonsForming: true, LocalGaps: true},
		Host:     func(o framework.Options) host.Framework { return New(o) },
		Exchange: NewExchange,
	}
}

// Framework implements host.Framework for PyTorch.
type Framework struct {
	o    framework.Options
	mode mode
	// ring is the current ring, replica its store on this host.
	ring    *elastic.Ring
	replica *store.Replica
}

// New returns the host's interface to PyTorch.
func New(o framework.Options) *Framework { return &Framework{o: o, mode: mode{is: o.Mode}} }

// NewExchange returns the leader's side of the store of one ring.
func NewExchange() leader.Exchange { return store.NewSequencer() }

// Join starts the store of a ring.
func (f *Framework) Join(r *elastic.Ring) (host.Exchange, error) {
	replica, err := store.NewReplica(f.o.Host, r)
	if err != nil {
		return nil, err
	}
	f.ring, f.replica = r, replica
	return replica, nil
}

// newcomers returns the ranks of a ring that do not have the training state.
func newcomers(r *elastic.Ring) []int {
	var ranks []int
	for _, m := range r.Members {
		if m.SyncedSince == 0 {
			ranks = append(ranks, m.Assignment.Rank)
		}
	}
	return ranks
}

// Aborted reports whether a process ended by SIGABRT, which is how PyTorch's NCCL watchdog
// ends a process whose peers are gone.
func (f *Framework) Aborted(e process.Exit) (aborted bool, why string) {
	return e.Aborted("PyTorch's or NCCL's abort")
}

// Reassigns returns true, because kolo.torch asks for each place, including the first one.
func (f *Framework) Reassigns() bool { return true }

// Standbys reports whether there may be processes that can't change their ring. There are
// none if the task trains only scripts with kolo.torch.
func (f *Framework) Standbys() bool { return f.o.Mode != settings.ModeInProcess }

// Stalled reports whether the line is from PyTorch's NCCL watchdog.
func (f *Framework) Stalled(line string) bool {
	return strings.Contains(line, "Watchdog caught collective operation timeout")
}
