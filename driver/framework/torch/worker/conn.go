// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"time"
)

// conn is a connection with messages to send. A process that does not read, because
// it was stopped or hangs, blocks no one.
type conn struct {
	net.Conn
	known bool // it has said hello; guarded by the server's lock

	mu    sync.Mutex
	queue [][]byte
	more  chan struct{} // receives an element when there are messages
	ended bool          // nothing more is added
	over  chan struct{} // closed when everything was written, or cannot be
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, more: make(chan struct{}, 1), over: make(chan struct{})}
}

// maxQueue bounds the queued messages. A repeated message is queued once.
const maxQueue = 64

// send queues a message.
func (c *conn) send(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || slices.ContainsFunc(c.queue, func(m []byte) bool { return bytes.Equal(m, message) }) {
		return
	}
	if len(c.queue) == maxQueue {
		c.ended = true // it did not read for dozens of rings
		_ = c.Conn.Close()
		return
	}
	c.queue = append(c.queue, message)
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// close ends the connection at once.
func (c *conn) close() {
	c.mu.Lock()
	c.ended, c.queue = true, nil
	c.wake()
	c.mu.Unlock()
	_ = c.Conn.Close()
}

// finish ends the connection once everything is sent.
func (c *conn) finish() {
	c.mu.Lock()
	c.ended = true
	c.wake()
	c.mu.Unlock()
	<-c.over
	_ = c.Conn.Close()
}

// write sends messages until the connection ends.
func (c *conn) write() {
	defer close(c.over)
	for {
		c.mu.Lock()
		var next []byte
		if len(c.queue) > 0 {
			next, c.queue = c.queue[0], c.queue[1:]
		}
		ended := c.ended
		c.mu.Unlock()
		switch {
		case next != nil:
			_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
			if _, err := c.Write(append(next, '\n')); err != nil {
				c.close()
				return
			}
		case ended:
			return
		default:
			<-c.more
		}
	}
}
