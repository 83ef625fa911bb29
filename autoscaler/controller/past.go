// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// pastFor is how long the history of a job is kept while the job does not change. It is short,
// because Nomad records a change a moment after the count has changed, and also records events
// that change nothing.
const pastFor = 5 * time.Second

// pasts holds the histories of jobs that were asked for in the last moments. Pages that stay
// open and recorders ask again and again.
type pasts struct {
	mu sync.Mutex
	of map[identity.JobKey]past
}

type past struct {
	at      time.Time
	index   uint64 // JobModifyIndex
	changes []api.Change
}

// get returns a history that is still valid for a job of that index.
func (p *pasts) get(key identity.JobKey, index uint64, now time.Time) ([]api.Change, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.of[key]
	return slices.Clone(found.changes), ok && found.index == index && now.Sub(found.at) < pastFor
}

func (p *pasts) put(key identity.JobKey, found past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.of, func(_ identity.JobKey, old past) bool { return found.at.Sub(old.at) >= pastFor })
	if p.of == nil {
		p.of = map[identity.JobKey]past{}
	}
	p.of[key] = found
}

// History returns a job's history of counts from Nomad. It is at most pastFor old.
func (c *Controller) History(ctx context.Context, key identity.JobKey) ([]api.Change, error) {
	now, index := time.Now(), c.indexOf(key)
	if changes, ok := c.pasts.get(key, index, now); ok && index > 0 {
		return changes, nil
	}
	changes, err := c.client.History(ctx, key)
	if err != nil {
		return nil, err
	}
	var out []api.Change
	for _, ch := range changes {
		out = append(out, ch.Change)
	}
	c.pasts.put(key, past{now, index, slices.Clone(out)})
	return out, nil
}

// indexOf returns the JobModifyIndex of an elastic job, or 0 if it is not known.
func (c *Controller) indexOf(key identity.JobKey) uint64 {
	c.mu.Lock()
	v := c.view
	c.mu.Unlock()
	if v == nil {
		return 0
	}
	i := slices.IndexFunc(v.Jobs, func(j planner.Job) bool { return j.Key == key })
	if i < 0 {
		return 0
	}
	return v.Facts[i].Changed
}
