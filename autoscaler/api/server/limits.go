// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"sync"
	"time"
)

// Bounds of what callers may hold. An address is often that of a proxy, so its
// part is large; the rest stays for others. The Unix socket has its own, so
// that a flood over the network does not keep the operator out.
const (
	mostConnections      = 512
	connectionsByAddress = 256
	mostStreams          = 128
	streamsByAddress     = 64

	headerLimit = 32 << 10
	bodyLimit   = 64 << 10
)

// timeouts bound how long a caller may take.
type timeouts struct {
	header, read time.Duration
	write        time.Duration // of one answer; an external policy takes seconds
	idle         time.Duration
	stream       time.Duration // of one event, or of a piece of an answer
	slot         time.Duration // until others have read their answers
	plan         time.Duration // of policies that are asked for a plan
}

func defaultTimeouts() timeouts {
	return timeouts{header: 10 * time.Second, read: 30 * time.Second, write: time.Minute, idle: 2 * time.Minute, stream: 10 * time.Second, slot: 10 * time.Second, plan: 5 * time.Second}
}

// counter counts what is held, in total and by address.
type counter struct {
	most, each int

	mu   sync.Mutex
	all  int
	held map[string]int
}

func newCounter(most, each int) *counter {
	return &counter{most: most, each: each, held: map[string]int{}}
}

// take takes one for an address; it returns false where there is none left.
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

// full reports whether an address has as many as it may.
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
