// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"sync"
	"time"
)

// Limits of what callers may hold. One address is often that of a proxy, so its
// share is large; the rest stays available to others. The Unix socket has separate
// limits, so that a flood over the network does not lock out the operator.
const (
	mostConnections      = 512
	connectionsByAddress = 256
	mostStreams          = 128
	streamsByAddress     = 64

	headerLimit = 32 << 10
	bodyLimit   = 64 << 10
)

// timeouts bounds the time that requests and answers may take.
type timeouts struct {
	header, read time.Duration
	write        time.Duration // for one answer; an external policy takes seconds
	idle         time.Duration
	stream       time.Duration // for one event, or for a piece of an answer
	slot         time.Duration // for waiting until others have read their answers
	plan         time.Duration // for policies that are asked for a plan
}

func defaultTimeouts() timeouts {
	return timeouts{header: 10 * time.Second, read: 30 * time.Second, write: time.Minute, idle: 2 * time.Minute, stream: 10 * time.Second, slot: 10 * time.Second, plan: 5 * time.Second}
}

// counter counts held resources, in total and by address.
type counter struct {
	most, each int

	mu   sync.Mutex
	all  int
	held map[string]int
}

func newCounter(most, each int) *counter {
	return &counter{most: most, each: each, held: map[string]int{}}
}

// take takes one resource for an address. It returns false if none is left.
func (c *counter) take(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || c.held[address] >= c.each {
		return false
	}
	c.all++
	c.held[address]++
	return true
}

// full reports whether an address holds as many as it may.
func (c *counter) full(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[address] >= c.each
}

func (c *counter) give(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.held[address]--; c.held[address] == 0 {
		delete(c.held, address)
	}
}
