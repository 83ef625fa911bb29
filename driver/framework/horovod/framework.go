// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// Agent returns the agent's interface to Horovod.
func Agent() framework.Framework {
	return framework.Framework{
		Elastic:  elastic.Framework{Name: "Horovod", Rendezvous: "Horovod's rendezvous", Entry: "hvd.elastic.run"},
		Host:     func(o framework.Options) host.Framework { return New(o) },
		Exchange: NewExchange,
	}
}

// Framework implements host.Framework for Horovod.
type Framework struct {
	o framework.Options
	// store is the current ring's. meshes is what the previous one learned.
	store  *rendezvous.Store
	meshes int
}

// New returns the host's interface to Horovod.
func New(o framework.Options) *Framework { return &Framework{o: o} }

// NewExchange returns the leader's side of the exchange of one ring.
func NewExchange() leader.Exchange { return rendezvous.NewCollector() }

// Join starts the rendezvous of a ring.
func (f *Framework) Join(r *elastic.Ring) (host.Exchange, error) {
	if f.store != nil {
		f.meshes = f.store.Meshes()
		f.store = nil
	}
	m := rendezvous.Members{Meshes: f.meshes}
	for _, mem := range r.Members {
		m.Slots = append(m.Slots, rendezvous.Slot{Host: string(mem.Proc.Slot.Host), Assignment: rendezvous.Assignment(mem.Assignment)})
		if mem.Proc.Slot.Host == f.o.Host {
			m.Local = append(m.Local, mem.Assignment.Rank)
		}
	}
	store, err := rendezvous.NewStore(m)
	if err != nil {
		return nil, err
	}
	f.store = store
	return store, nil
}

// Aborted reports whether a process ended by SIGABRT, which is how Horovod and Gloo
// end a process whose peers are gone.
func (f *Framework) Aborted(e process.Exit) (aborted bool, why string) {
	return e.Aborted("Horovod's or Gloo's abort")
}

// Explain always returns "", because there is no advice about Horovod's last lines.
func (f *Framework) Explain(string) string { return "" }

// Reassigns returns false, because Horovod reads a process's first rank and size from its
// environment.
func (f *Framework) Reassigns() bool { return false }

// Standbys returns false: every Horovod process can change its ring.
func (f *Framework) Standbys() bool { return false }

// Stalled reports whether the line is a warning of Horovod's stall check.
func (f *Framework) Stalled(line string) bool {
	return strings.Contains(line, "Stalled ops:") || strings.Contains(line, "waiting for remainder of ranks")
}
