// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Allocation is an allocation as far as accounting needs it.
type Allocation struct {
	ID, Group string
	Job       identity.JobKey
	Created   time.Time
	Ended     time.Time // zero if it holds its resources
	Failed    bool      // it failed, or was lost with its node
}

// Allocations calls visit for each allocation that Nomad lists. visit must not call the
// watcher.
func (w *Watcher) Allocations(visit func(*Allocation)) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, a := range w.store.allocs {
		visit(&Allocation{ID: a.id, Group: a.group, Job: a.job, Created: a.created, Ended: a.ended, Failed: a.failed})
	}
}
