// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Collector is the leader's side of one generation: it gathers blobs from the agents and
// hands them out when a mesh is complete. It does no I/O. All methods may be called
// concurrently, but the Fills for one host should reach it in the order in which they were
// returned.
type Collector struct {
	mu     sync.Mutex
	meshes map[string]*gathering
	// expected are the hosts whose snapshot a new leader still waits for.
	expected map[string]bool
}

// gathering is the leader's part of one scope.
type gathering struct {
	size   int
	values map[string][]byte
	// from is the host of each value.
	from map[string]string
	// complete means that this leader has handed the mesh out, read that an earlier leader
	// has.
	complete, read bool
	// settled means that the values were dropped because they are no longer needed.
	settled bool
}

// NewCollector starts a generation.
func NewCollector() *Collector {
	return &Collector{meshes: map[string]*gathering{}, expected: map[string]bool{}}
}

// Expect names the hosts that take part in a generation. A leader that takes over during a
// generation calls it: until Restore was called for each host, the Collector does not know
// which values the previous leader handed out.
func (c *Collector) Expect(hosts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hosts {
		c.expected[h] = true
	}
}

// Submit takes values from the agent of a host and returns the values to send out. A host
// that submits values again gets the complete mesh again. An error for one value does not
// keep Submit from taking the other values. ErrConflict means that the ring cannot form.
func (c *Collector) Submit(host string, puts []wire.Put) ([]wire.Fill, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fills []wire.Fill
	var errs []error
	added := map[string]map[string][]byte{}
	again := map[string]bool{}
	for _, p := range puts {
		g, err := c.gathering(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("from host %s: %w", host, err))
			continue
		}
		if g.settled {
			continue
		}
		old, known := g.values[p.Key]
		same := known && bytes.Equal(old, p.Value)
		switch {
		case g.complete && !same:
			errs = append(errs, fmt.Errorf("from host %s: %w: key %s of scope %s", host, ErrConflict, clip(p.Key), clip(p.Scope)))
			continue
		case same && (g.complete || g.size == 0):
			again[p.Scope] = true
			continue
		}
		g.values[p.Key], g.from[p.Key] = p.Value, host
		if g.size == 0 {
			if added[p.Scope] == nil {
				added[p.Scope] = map[string][]byte{}
			}
			added[p.Scope][p.Key] = p.Value
		} else if len(g.values) == g.size {
			g.complete = true
			fills = append(fills, wire.Fill{Scope: p.Scope, Values: g.values, Complete: true, Hosts: g.hosts()})
		}
	}
	for _, scope := range sortedKeys(added) {
		fills = append(fills, wire.Fill{Scope: scope, Values: added[scope]})
	}
	for _, scope := range sortedKeys(again) {
		fills = append(fills, c.meshes[scope].fill(scope, host))
	}
	return fills, errors.Join(errs...)
}

// Restore takes an agent's snapshot, and returns the values to send out. They include
// everything that the agent itself may have missed.
func (c *Collector) Restore(host string, s wire.Snapshot) ([]wire.Fill, error) {
	c.mu.Lock()
	delete(c.expected, host)
	for _, scope := range s.Released {
		c.get(scope).read = true
	}
	c.mu.Unlock()

	fills, err := c.Submit(host, s.Puts)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scope := range sortedKeys(c.meshes) {
		if g := c.meshes[scope]; g.size == 0 && len(g.values) > 0 {
			fills = append(fills, g.fill(scope, host))
		}
	}
	return fills, err
}

// Withdraw drops the values of a slot that died; puts are the values that the slot's Store
// returned. If some process may have read one of them, Withdraw drops nothing and returns
// true. While snapshots are still expected, Withdraw does not know which values have been
// read. It then also returns true, and the caller may ask again later.
func (c *Collector) Withdraw(puts []wire.Put) (visible bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(puts) > 0 && len(c.expected) > 0 {
		return true
	}
	for _, p := range puts {
		g := c.meshes[p.Scope]
		if g != nil && (g.complete || g.read || g.size == 0 && hasKey(g.values, p.Key)) {
			return true
		}
	}
	for _, p := range puts {
		if g := c.meshes[p.Scope]; g != nil {
			delete(g.values, p.Key)
			delete(g.from, p.Key)
		}
	}
	return false
}

// Connected drops the values of all complete meshes. Call it when all slots of
// the ring are up.
func (c *Collector) Connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.meshes {
		if g.complete {
			g.values, g.settled = nil, true
		}
	}
}

// gathering returns the gathering that a value belongs to, if any.
func (c *Collector) gathering(p wire.Put) (*gathering, error) {
	g := c.get(p.Scope)
	if len(g.values) == 0 && !g.complete {
		g.size = p.Size
	}
	if g.size != p.Size {
		return nil, fmt.Errorf("rendezvous: scope %s has %d members for some and %d for others", clip(p.Scope), g.size, p.Size)
	}
	if g.size > 0 && !inMesh(p.Key, g.size) {
		return nil, fmt.Errorf("rendezvous: key %s is not of scope %s with %d members", clip(p.Key), clip(p.Scope), g.size)
	}
	return g, nil
}

func (c *Collector) get(scope string) *gathering {
	g := c.meshes[scope]
	if g == nil {
		g = &gathering{values: map[string][]byte{}, from: map[string]string{}}
		c.meshes[scope] = g
	}
	return g
}

// hosts returns the hosts with a member in the mesh; all of them once it is complete.
func (g *gathering) hosts() []string {
	hosts := slices.Sorted(maps.Values(g.from))
	return slices.Compact(hosts)
}

// fill returns everything in a scope, for one host.
func (g *gathering) fill(scope, host string) wire.Fill {
	return wire.Fill{Scope: scope, Values: maps.Clone(g.values), Complete: g.complete, Hosts: []string{host}}
}
